//! A client of the node, and checks of its answers.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;
use tower_redlock::error::Reason;
use tower_redlock::node::{
    AcquireOp, Answer, ExtendOp, ExtendedAnswer, GrantedAnswer, HeldAnswer, LeaseId, Node, Op,
    RaiseOp, RaisedAnswer, ReleasedAnswer, Reply,
};
use tower_redlock::time::{Clock, SystemClock, Timestamp};

pub(super) const TTL: Duration = Duration::from_secs(60);
/// Time for an operation to arrive, longer than any test.
const ARRIVAL_TIME: Duration = Duration::from_secs(30);

/// One lease, and the node that it uses.
#[derive(Clone)]
pub(super) struct Contender {
    node: Arc<dyn Node>,
    lease: Arc<LeaseId>,
    waits: bool,
}

pub(super) type Response = Result<Answer, Reason>;

impl Contender {
    pub(super) fn new(node: Arc<dyn Node>, lease: Arc<LeaseId>) -> Self {
        Self { node, lease, waits: true }
    }

    /// Makes the lease attempt only once, without waiting.
    pub(super) fn impatient(self) -> Self {
        Self { waits: false, ..self }
    }

    /// Makes it the same lease, which its owner may keep idle.
    pub(super) fn lingering(self) -> Self {
        self.with(|lease| lease.lingering(true))
    }

    /// Makes it the same lease, which others may share.
    pub(super) fn shared(self) -> Self {
        self.with(|lease| lease.shared(true))
    }

    /// Makes it the same lease, on a name that is believed to be free.
    pub(super) fn free(self, token: u64) -> Self {
        self.with(|lease| lease.with_single_token(token))
    }

    fn with(self, change: impl FnOnce(LeaseId) -> LeaseId) -> Self {
        let (resource, owner) = (self.lease.resource().clone(), Arc::clone(self.lease.owner()));
        let lease = LeaseId::new(resource, self.lease.nonce(), owner, self.lease.since());
        Self { lease: Arc::new(change(lease)), ..self }
    }

    /// Returns the same lease on another node.
    pub(super) fn at(&self, node: &Arc<dyn Node>) -> Self {
        Self { node: node.clone(), ..self.clone() }
    }

    pub(super) const fn lease(&self) -> &Arc<LeaseId> {
        &self.lease
    }

    pub(super) async fn acquire(&self) -> Response {
        self.ask(self.acquire_op(TTL, 0)).await
    }

    pub(super) async fn acquire_for(&self, ttl: Duration) -> Response {
        self.ask(self.acquire_op(ttl, 0)).await
    }

    pub(super) async fn acquire_with(&self, token: u64) -> Response {
        self.ask(self.acquire_op(TTL, token)).await
    }

    /// Acquires with a single token, as a name that is believed to be free.
    pub(super) async fn acquire_free(&self, token: u64) -> Response {
        let acquire = AcquireOp::new(self.lease.clone(), TTL, soon()).fencing(token, token);
        self.ask(Op::Acquire(acquire.waits(self.lease.clone()))).await
    }

    pub(super) async fn raise(&self, token: u64) -> Response {
        self.ask(self.raise_op(token)).await
    }

    pub(super) async fn extend(&self) -> Response {
        self.extend_for(TTL).await
    }

    pub(super) async fn extend_for(&self, ttl: Duration) -> Response {
        self.ask(self.extend_op(ttl, soon())).await
    }

    pub(super) async fn release(&self) -> Response {
        self.ask(self.release_op()).await
    }

    pub(super) fn acquire_op(&self, ttl: Duration, token: u64) -> Op {
        self.acquire_op_until(soon(), ttl, token)
    }

    pub(super) fn acquire_op_until(&self, expires: Timestamp, ttl: Duration, token: u64) -> Op {
        let block_end = token + 255;
        let acquire = AcquireOp::new(self.lease.clone(), ttl, expires).fencing(token, block_end);
        Op::Acquire(if self.waits { acquire.waits(self.lease.clone()) } else { acquire })
    }

    pub(super) fn raise_op(&self, token: u64) -> Op {
        Op::Raise(RaiseOp::new(self.lease.clone(), token, token + 255))
    }

    pub(super) fn extend_op(&self, ttl: Duration, until: Timestamp) -> Op {
        Op::Extend(ExtendOp::new(self.lease.clone(), ttl, until, ARRIVAL_TIME).token(7))
    }

    pub(super) fn release_op(&self) -> Op {
        Op::Release(self.lease.clone())
    }

    /// Sends the operation now, and returns a future of the answer.
    pub(super) fn ask(&self, op: Op) -> impl Future<Output = Response> + use<> {
        let (answer, answered) = oneshot::channel();
        self.node.send(op, Reply::from_fn(move |response| drop(answer.send(response))));
        async { answered.await.expect("every reply is answered or dropped") }
    }

    pub(super) fn hex_nonce(&self) -> String {
        String::from_utf8(self.lease.nonce().to_hex().to_vec()).expect("digits")
    }
}

/// A deadline later than any operation of a test.
pub(super) fn soon() -> Timestamp {
    SystemClock::new().now() + ARRIVAL_TIME
}

/// The wall clock as a token, a second behind: larger tokens stay below the node's limit.
pub(super) fn now_token() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(now.as_micros()).expect("before the year 586,524") - 1_000_000
}

#[expect(clippy::unnecessary_wraps, reason = "to be compared with a node's answer")]
pub(super) fn granted(accepted: bool, fence: u64) -> Response {
    Ok(Answer::Granted(GrantedAnswer::new(accepted, if accepted { 0 } else { fence })))
}

#[expect(clippy::unnecessary_wraps, reason = "to be compared with a node's answer")]
pub(super) fn raised(accepted: bool, fence: u64) -> Response {
    Ok(Answer::Raised(RaisedAnswer::new(accepted, fence)))
}

#[expect(clippy::unnecessary_wraps, reason = "to be compared with a node's answer")]
pub(super) fn released(existed: bool, awaited: bool) -> Response {
    Ok(Answer::Released(ReleasedAnswer::new(existed, awaited)))
}

/// The answer to an extension of a lease for which no other waits.
pub(super) const EXTENDED: Response = Ok(Answer::Extended(ExtendedAnswer::UNAWAITED));

/// Maximum time for which a key may live beyond its TTL: a node timeout, and the uncertainty of a
/// clock's reading.
pub(super) const SLACK: Duration = Duration::from_secs(5);

/// Panics unless the node keeps the key for `owner` with about `TTL` to live. On a server a key may
/// live a little longer, as the client sends its expiry.
#[track_caller]
pub(super) fn assert_held(response: &Response, owner: &str) {
    let Ok(Answer::Held(HeldAnswer { owner: Some(holder), remaining: Some(remaining), .. })) =
        response
    else {
        panic!("expected a refusal for {owner}, got {response:?}");
    };
    assert_eq!(&**holder, owner);
    assert!(!remaining.is_zero() && *remaining <= TTL + SLACK, "{remaining:?} to live");
}

/// The fence in a grant or a refusal.
#[track_caller]
pub(super) fn fence_of(response: &Response) -> u64 {
    match response {
        Ok(answer @ (Answer::Granted(_) | Answer::Held(_))) => answer.fence(),
        other => panic!("expected a grant or a refusal, got {other:?}"),
    }
}

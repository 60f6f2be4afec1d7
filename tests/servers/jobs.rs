//! Promises and claims of a job's ticks, sent to one node.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;
use tower_redlock::{
    error::Reason,
    node::{
        Answer, ClaimOp, ClaimsAnswer, Node, Op, PrepareOp, PromisedAnswer, Reply, TickClaim,
        TickRun,
    },
};

/// Longer than any test.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) type Response = Result<Answer, Reason>;

/// Sends the operation now, and returns a future of the answer.
pub(crate) fn ask(node: &Arc<dyn Node>, op: Op) -> impl Future<Output = Response> + use<> {
    let (answer, answered) = oneshot::channel();
    node.send(op, Reply::from_fn(move |response| drop(answer.send(response))));
    async { answered.await.expect("every reply is answered or dropped") }
}

pub(crate) fn prepare(job: &str, token: u64) -> Op {
    Op::Prepare(PrepareOp::new(job.into(), token, PATIENCE))
}

pub(crate) fn claim(job: &str, claim: &TickClaim) -> Op {
    Op::Claim(ClaimOp::new(job.into(), Arc::new(claim.clone()), PATIENCE))
}

pub(crate) fn claims<'a>(jobs: impl IntoIterator<Item = &'a str>) -> Op {
    Op::Claims(jobs.into_iter().map(Arc::from).collect())
}

/// The first run of a tick, without a previous run.
pub(crate) fn of_tick(token: u64, tick: u64) -> TickClaim {
    TickClaim::new(token, run(tick), format!("owner of {token}").into(), None)
}

pub(crate) fn run(tick: u64) -> TickRun {
    TickRun::new(Duration::from_millis(tick), 1, Duration::from_millis(tick + 3))
}

/// The promise of a node that has lost nothing.
#[expect(clippy::unnecessary_wraps, reason = "to be compared with a node's answer")]
pub(crate) fn promised(claim: Option<&TickClaim>) -> Response {
    Ok(Answer::Promised(PromisedAnswer::new(0, claim.cloned().map(Box::new))))
}

#[expect(clippy::unnecessary_wraps, reason = "to be compared with a node's answer")]
pub(crate) fn stored<const N: usize>(claims: [Option<&TickClaim>; N]) -> Response {
    Ok(Answer::Claims(ClaimsAnswer::new(0, claims.map(Option::<&TickClaim>::cloned).into())))
}

pub(crate) const CLAIMED: Response = Ok(Answer::Claimed);
pub(crate) const SUPERSEDED: Response = Err(Reason::Superseded);

//! One voter: the [`Node`] trait, the Redis node and the embedded node.
//!
//! A node takes typed operations ([`Op`]), not raw commands, so that faults can be injected and
//! other drivers be written. Both nodes of this crate pass the same conformance suite.
//!
//! Operations are acquire, raise, extend and release of a lease; claims of jobs; records; inspecting and
//! listing what a node keeps. A subscription delivers hints of releases and of refused requests, and is
//! optional.

use std::{sync::Arc, task::Waker, time::Duration};

use crate::time::Timestamp;

mod clock_jumps;
mod embedded;
mod health;
mod hints;
pub mod redis;
mod reply;
mod subscriptions;

pub use crate::protocol::{
    AcquireOp, Answer, ClaimOp, ClaimsAnswer, ExtendOp, ExtendedAnswer, ForgetJobOp, ForgetOp,
    FormerClaim, GrantedAnswer, HeldAnswer, JobDocument, LeaseId, Nonce, OnDemandRun, Op, OpId,
    PrepareOp, PromisedAnswer, RaiseOp, RaisedAnswer, Record, RecordOp, ReleasedAnswer, RepairOp,
    ScanKind, ScanOp, ScannedAnswer, ScheduleMark, Stored, StoredLease, TickClaim, TickFates,
    TickRun,
};
pub(crate) use clock_jumps::{ClockJump, ClockJumps};
pub use embedded::EmbeddedNodes;
pub use health::{
    Blocked, ClockOffset, CopyProgress, Finding, Memory, NodeHealth, NodeState, Persistence, Role,
    ServerKind,
};
pub use hints::{Hint, Hints, Subscription};
pub use reply::Reply;
pub(crate) use reply::ReplySink;
pub(crate) use subscriptions::owner_channel;

/// One voter of the set.
///
/// # Contract
///
/// * Operations of one lease that take effect do so in the order of the calls to
///   [`send`](Node::send): an acquire never overtakes a later release. Operations of other leases may
///   overtake it.
/// * Every [`Reply`] is answered or dropped within a bounded time. A dropped reply means that the
///   outcome is unknown.
/// * An operation that [is stale](Op::is_stale) is not sent, and one that [is over](Op::is_over)
///   is not sent again.
/// * `send` does not block.
pub trait Node: std::fmt::Debug + Send + Sync + 'static {
    /// Starts an operation. The answer goes to `reply`, from any thread, possibly before `send`
    /// returns.
    fn send(&self, op: Op, reply: Reply);

    /// Returns the node's name for errors and logs: `host:port/db`, or a given name.
    fn name(&self) -> &str;

    /// Returns the node's health, as last seen. Sends nothing.
    fn health(&self) -> NodeHealth {
        NodeHealth::voting(self.name())
    }

    /// Returns the node's wall clock at `now`, as the time since the Unix epoch; `None` if it is
    /// unknown. `now` is a time of the manager's clock, and `wall` is this process's wall clock at that
    /// time. Sends nothing.
    ///
    /// Fencing tokens are derived from the clocks of a quorum; a node refuses a token that is more than
    /// 60 s ahead of its own clock. Default: the wall clock of this process.
    fn wall(&self, now: Timestamp, wall: Duration) -> Option<Duration> {
        let _ = now;
        Some(wall)
    }

    /// Returns whether [`wall`](Self::wall) is a clock other than this process's. If a quorum of nodes
    /// has such clocks, jobs use them in place of this process's wall clock. Default: no.
    fn has_own_wall(&self) -> bool {
        false
    }

    /// Reports releases of a name to `hints` until the subscription is dropped, so that waiters need
    /// not poll. By default a node reports nothing, and waiters retry after pauses.
    ///
    /// `name` may also be a carriage return, which no name of a lock contains, and an owner. Then the
    /// node reports the names of leases of this owner that may [linger](LeaseId::lingers) or are
    /// [shared](LeaseId::is_shared), when another client is refused one of them ([`Hint::Asked`]), and when
    /// no exclusive request waits any more for a shared one ([`Hint::Withdrawn`]).
    ///
    /// The node sends [`Hint::Listening`] once it reports, possibly before this returns. Must not
    /// block, and must not hold a mutex while it sends a hint.
    fn subscribe(&self, name: &Arc<str>, hints: Hints) -> Subscription {
        let _ = (name, hints);
        Subscription::none()
    }

    /// Wakes `waker` each time the node accepts operations or votes again, until the node is dropped,
    /// so that releases which it did not acknowledge are repeated at once. Must not wake it while a
    /// mutex is held. By default a node wakes none, and releases are repeated after pauses of up to 1 s.
    fn wake_on_return(&self, waker: Waker) {
        drop(waker);
    }
}

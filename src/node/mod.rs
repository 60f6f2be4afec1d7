//! One voter: the [`Node`] trait, the Redis node and the embedded node.
//!
//! A node takes typed operations ([`Op`]), not raw commands, so that faults can be injected and
//! other drivers be written. Both nodes of this crate pass the same conformance suite.

use std::{sync::Arc, time::Duration};

use crate::time::Timestamp;

mod clock_jumps;
mod embedded;
mod health;
mod hints;
pub mod redis;
mod reply;
mod subscriptions;

pub use crate::protocol::{
    AcquireOp, Answer, ClaimOp, ClaimsAnswer, ExtendOp, ForgetOp, GrantedAnswer, HeldAnswer,
    LeaseId, Nonce, Op, OpId, PrepareOp, PromisedAnswer, RaiseOp, RaisedAnswer, Record, RecordOp,
    ReleasedAnswer, RepairOp, ScheduleMark, Stored, StoredLease, TickClaim, TickRun,
};
pub(crate) use clock_jumps::{ClockJump, ClockJumps};
pub use embedded::EmbeddedNodes;
pub use health::{
    Blocked, ClockOffset, CopyProgress, Finding, Memory, NodeHealth, NodeState, Persistence, Role,
};
pub(crate) use hints::HintSink;
pub use hints::{Hint, Hints, Subscription};
pub use reply::Reply;
pub(crate) use reply::ReplySink;

/// One voter of the set.
///
/// # Contract
///
/// * Operations of one lease take effect in the order of the calls to [`send`](Node::send), as far
///   as they take effect at all. A release that is sent after an acquire is never overtaken by it.
///   An acquire may be overtaken by operations of other leases.
/// * Every [`Reply`] is answered, or dropped, within a bounded time. Dropping it means that the
///   outcome is unknown.
/// * An operation that [is stale](Op::is_stale) is not sent, and one that [is over](Op::is_over)
///   is not sent again.
/// * `send` does not block.
pub trait Node: std::fmt::Debug + Send + Sync + 'static {
    /// Starts an operation; the answer goes to `reply`, from any thread, also before `send`
    /// returns.
    fn send(&self, op: Op, reply: Reply);

    /// The node's name in errors and logs: `host:port/db`, or what it was given.
    fn name(&self) -> &str;

    /// How the node is doing. Does not ask it: the answer is what was last seen.
    fn health(&self) -> NodeHealth {
        NodeHealth::voting(self.name())
    }

    /// What the node's wall clock shows at `now` on the manager's clock, where this process's shows
    /// `wall`: the time since the Unix epoch. `None` where it is not known at present. Does not ask
    /// the node.
    ///
    /// Fencing tokens are made of the clocks of a quorum: no node takes one that is more than 60 s
    /// ahead of its own. By default the node is taken to have the clock of this process.
    fn wall(&self, now: Timestamp, wall: Duration) -> Option<Duration> {
        let _ = now;
        Some(wall)
    }

    /// Whether [`wall`](Self::wall) is a clock of the node's own, apart from this process's. Where a
    /// quorum of nodes has one, jobs go by it, whatever this process's wall clock shows. Default: no.
    fn has_own_wall(&self) -> bool {
        false
    }

    /// Tells `hints` of releases of a name, until the answer is dropped: for who waits, so that it
    /// need not ask again and again. A node that can't tells nothing, which is the default; who
    /// waits then tries now and then.
    ///
    /// The node says [`Hint::Listening`] once it is so, perhaps before this returns. Not to block,
    /// and not to hold a lock while it tells.
    fn subscribe(&self, name: &Arc<str>, hints: Hints) -> Subscription {
        let _ = (name, hints);
        Subscription::none()
    }
}

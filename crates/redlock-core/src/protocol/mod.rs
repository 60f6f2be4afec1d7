//! What passes between a lease and its nodes: operations, answers, and the data in them.
//!
//! | what | where |
//! |---|---|
//! | operations of a node | `op`, `job_op` |
//! | their answers, and the leases and records in them | `answer` |
//! | pages of the names that a node keeps | `scan` |
//! | identity of a lease | `lease_id` |
//! | claims of a job's ticks, and the documents beside them | `tick_claim` |
//! | which servers own the node names | [`views`] |
//! | the formulas | [`formulas`] |
//!
//! # Views: one name, one server (R14)
//!
//! The address of a node may move to a blank server while the old one still serves connected
//! clients. Each of the two passes its probation with some clients, and two quorums of the same
//! *names* need not share a *server*:
//!
//! 1. An *incarnation* is (epoch, run, nonce of the enrolment), compared in this order. An
//!    enrolment takes an epoch above every one known for its name, and at least the time in
//!    seconds. The *owner* of a name is the greatest incarnation that a node was sent for it.
//! 2. A client sends every node the greatest incarnation that it knows of each other name. Storing
//!    is by maximum, so any client may send them, in any order.
//! 3. Acquires, raises, renewals, claims and records count only over q nodes with the same owner of
//!    every name, themselves included. A renewal counts from the latest moment since which such a
//!    quorum confirmed the key. A raise whose node changed since it granted is not accepted.
//! 4. A node leaves its probation one `max_ttl` after a client read that N−q+1 others vote and know
//!    the same owners. If a later read contradicts that, the time begins anew.
//! 5. A node whose name has a greater owner is *displaced*: it has no vote for clients that know
//!    that, and its name is resolved again. If that still leads to it one `max_ttl` later, it is
//!    enrolled anew. If this does not last, the next wait is twice as long, up to 64 times: a name
//!    that flaps slows only itself down.
//!
//! Why it holds: `docs/decisions/007-owners-by-epoch.md`; a model that searches for steps that
//! break it: `verify/model.md`.
//!
//! Until all nodes know of an enrolment, about a round trip, votes are split. A node that cannot
//! store the owners has no vote (`NamesDiffer`).
//!
//! Limits: with an odd N up to q−1 names may change at once, each from its move, or a restart of
//! its server, until its new server votes and no client is connected to the former one. If more
//! move, the set stops rather than splits; only a quorum in probation begins anew, which is safe if
//! its former servers are gone. With an even N it is one name at a time; with N = 2 a move stops
//! the set until the probation is over. With N = 1 no other node can know of it: such a set is not
//! protected.
//!
//! # Formulas
//!
//! N nodes, q = ⌊N/2⌋+1, drift = factor × TTL + 2 ms (the precision of an expiry), validity = TTL −
//! drift.

mod answer;
pub mod formulas;
mod job_op;
mod lease_id;
mod op;
mod scan;
mod tick_claim;
pub mod views;

pub use answer::{
    Answer, ClaimsAnswer, GrantedAnswer, HeldAnswer, PromisedAnswer, RaisedAnswer, Record,
    ReleasedAnswer, Stored, StoredLease,
};
pub use job_op::{ClaimOp, ForgetJobOp, PrepareOp};
pub use lease_id::{LeaseId, Nonce};
pub use op::{AcquireOp, ExtendOp, ForgetOp, Op, OpId, RaiseOp, RecordOp, RepairOp};
pub use scan::{ScanKind, ScanOp, ScannedAnswer};
pub use tick_claim::{JobDocument, ScheduleMark, TickClaim, TickRun};

//! What passes between a lease and its nodes: operations, answers, and the data in them.
//!
//! | what | where |
//! |---|---|
//! | a question to one node | `op` |
//! | its answer, and what a node stores of leases and records | `answer` |
//! | who holds a lease | `lease_id` |
//! | which run of a job's tick was started last | `tick_claim` |
//! | which servers mean each other by their names | [`names`] |
//! | the formulas | [`rules`] |

mod answer;
mod lease_id;
pub(crate) mod names;
mod op;
pub(crate) mod rules;
mod tick_claim;

pub use answer::{
    Answer, ClaimsAnswer, GrantedAnswer, HeldAnswer, PromisedAnswer, RaisedAnswer, Record,
    ReleasedAnswer, Stored, StoredLease,
};
pub use lease_id::{LeaseId, Nonce};
pub use op::{
    AcquireOp, ClaimOp, ExtendOp, ForgetOp, Op, OpId, PrepareOp, RaiseOp, RecordOp, RepairOp,
};
pub use tick_claim::{ScheduleMark, TickClaim, TickRun};

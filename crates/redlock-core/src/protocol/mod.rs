//! The messages between a lease and its nodes: operations, answers, and the data in them.
//!
//! | what | where |
//! |---|---|
//! | operations of a node | `op`, `job_op` |
//! | their answers, and the leases and records in them | `answer` |
//! | pages of the names that a node keeps | `scan` |
//! | identity of a lease | `lease_id` |
//! | claims of a job's ticks, and the documents beside them | `tick_claim` |
//! | R14: which server owns each node name | [`views`] |
//! | quorum, drift, validity, timeouts | [`formulas`] |

mod answer;
pub mod formulas;
mod job_op;
mod lease_id;
mod op;
mod scan;
mod tick_claim;
pub mod views;

pub use answer::{
    Answer, ClaimsAnswer, ExtendedAnswer, GrantedAnswer, HeldAnswer, PromisedAnswer, RaisedAnswer,
    Record, ReleasedAnswer, Stored, StoredLease,
};
pub use job_op::{ClaimOp, ForgetJobOp, PrepareOp};
pub use lease_id::{LeaseId, Nonce};
pub use op::{AcquireOp, ExtendOp, ForgetOp, Op, OpId, RaiseOp, RecordOp, RepairOp, WAIT_MARK_TTL};
pub use scan::{ScanKind, ScanOp, ScannedAnswer};
pub use tick_claim::{
    FormerClaim, JobDocument, OnDemandRun, ScheduleMark, TickClaim, TickFates, TickRun,
};

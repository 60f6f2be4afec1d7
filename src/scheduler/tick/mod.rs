//! One tick of a job, for programs that something else starts at each tick on several hosts.
//!
//! It takes the same steps as a scheduler once (R12), for a tick that the caller's clock names. An
//! end is stored only if the work succeeded, so that a later call may repeat an open run as its next
//! attempt. A claim that did not reach a quorum is taken back, as far as nodes answer: it does not
//! count as an attempt.

mod attempt;
mod error;
mod outcome;
mod request;

pub use error::TickError;
pub use outcome::{TickContext, TickOutcome};
pub use request::TickRequest;

//! One tick of a job, for programs that something else starts at each tick on several hosts.

mod attempt;
mod error;
mod outcome;
mod request;

pub use error::TickError;
pub use outcome::{TickContext, TickOutcome};
pub use request::TickRequest;

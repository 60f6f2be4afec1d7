//! One tick of a job, for programs that something else starts at each tick on several hosts.

mod error;
mod outcome;
mod request;
mod under_lock;

pub use error::TickError;
pub use outcome::{TickContext, TickOutcome};
pub use request::TickRequest;

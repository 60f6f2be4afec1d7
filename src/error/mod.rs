//! The errors of this crate, and the votes in them.

mod build;
mod cause;
mod lock;
mod membership;
mod vote;

pub use build::BuildError;
pub(crate) use cause::source_of;
pub use lock::{LockError, LossCause, ReleaseError};
pub use membership::{AdoptError, LowerError};
pub use vote::{Reason, Vote, VoteOutcome, Votes};

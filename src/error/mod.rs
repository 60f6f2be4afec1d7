//! The errors of this crate, and the votes in them.

mod build;
mod cause;
pub(crate) mod lock;
mod membership;
mod vote;

pub use crate::resource::{BodyFault, ResourceError};
pub use build::BuildError;
pub(crate) use cause::source_of;
pub(crate) use lock::LockError;
pub use lock::{LossCause, ReleaseError};
pub use membership::{AdoptError, LowerError};
pub use vote::{Reason, Vote, VoteOutcome, Votes};

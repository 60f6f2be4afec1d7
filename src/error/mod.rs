//! What can go wrong, told apart: held by another, too few nodes, too slow, lost, bad input.

mod adopt;
mod build;
mod cause;
pub(crate) mod lock;
mod lower;
mod release;
mod vote;

pub use crate::resource::{BodyFault, ResourceError};
pub use adopt::AdoptError;
pub use build::BuildError;
pub(crate) use cause::source_of;
pub(crate) use lock::LockError;
pub use lock::LossCause;
pub use lower::LowerError;
pub use release::ReleaseError;
pub use vote::{Reason, Vote, VoteOutcome, Votes};

//! The errors of this crate, and the votes in them.

mod build;
pub(crate) mod lock;
mod membership;
mod prospect;
mod shown;
mod source;
mod unfit;
mod vote;

pub use crate::resource::{BodyFault, ResourceError};
pub use build::BuildError;
pub(crate) use lock::LockError;
pub use lock::{LossCause, ReleaseError};
pub use membership::{AdoptError, LowerError};
pub(crate) use prospect::{Prospect, permissions};
pub(crate) use shown::ServerText;
pub(crate) use source::source_of;
pub use unfit::UnfitServer;
pub use vote::{Reason, Vote, VoteOutcome, Votes};

//! The errors of this crate, and the votes in them.

mod build;
pub(crate) mod lock;
mod membership;
mod prospect;
mod refusals;
mod server_reply;
mod source;

pub use build::BuildError;
pub(crate) use lock::LockError;
pub use lock::{LossCause, ReleaseError, SlotHolder, WaitingRequest};
pub use membership::{AdoptError, LowerError};
pub(crate) use prospect::{Prospect, permissions, prospect};
#[doc(inline)]
pub use redlock_core::{
    resource::{BodyFault, ResourceError},
    unfit::UnfitServer,
    vote::{Reason, SetNumber, Vote, VoteOutcome, Votes},
};
pub(crate) use redlock_core::{server_text::ServerText, vote::layouts};
#[cfg(feature = "scheduler")]
pub(crate) use refusals::Refusals;
pub(crate) use source::source_of;

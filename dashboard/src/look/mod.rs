//! What is read from the servers, for all viewers of the process at once.

mod cached;
mod jobs;
mod locks;
mod looks;
mod once;

pub(crate) use cached::{Look, LookStart};
pub(crate) use jobs::{JobHistory, JobListing, JobPage, ShownJob};
pub(crate) use locks::{HeldLock, LockDetails, LockListing, ShownLock};
pub(crate) use looks::Looks;
pub(crate) use once::OnceDetails;

//! What is read from the servers, for all viewers of the process at once.

mod cached_value;
mod jobs;
mod locks;
mod once;
mod snapshots;

pub(crate) use cached_value::{FleetSnapshot, SnapshotStart};
pub(crate) use jobs::{JobHistory, JobListing, JobPage, ShownJob};
pub(crate) use locks::{HeldLock, LockDetails, LockListing, ShownLock};
pub(crate) use once::OnceDetails;
pub(crate) use snapshots::FleetSnapshots;

//! Options that decide about missed, overlapping and interrupted ticks.

#[doc(inline)]
pub use redlock_core::tick_policy::{Missed, Overlap};

/// When a tick counts as done if the replica that runs it crashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "config", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "config", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Claim {
    /// When its run starts: an interrupted run is not repeated. Each tick runs at most once.
    #[default]
    AtStart,
    /// When its run has ended: any replica starts an interrupted run again, up to
    /// [`max_attempts`](crate::Job::max_attempts) times and within
    /// [`catch_up`](crate::Job::catch_up). Each tick that is started runs at least once, so its work
    /// must be repeatable.
    AtEnd,
}

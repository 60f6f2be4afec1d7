//! Options that decide about missed, overlapping and broken-off ticks.

/// What is done about ticks that were not started in time, because the whole fleet was down or the
/// run before took longer.
///
/// Ticks are made up for until they are older than the job's `catch_up`. A tick that is on time
/// always runs.
///
/// ```
/// # #[cfg(feature = "config")] {
/// use tower_redlock::scheduler::Missed;
///
/// let missed: Missed = serde_json::from_str(r#"{ "run_all": { "at_most": 12 } }"#)?;
/// assert_eq!(missed, Missed::RunAll { at_most: 12 });
/// assert_eq!(serde_json::to_string(&Missed::RunLatest)?, r#""run_latest""#);
/// # }
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "config", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "config", serde(rename_all = "snake_case", deny_unknown_fields))]
#[non_exhaustive]
pub enum Missed {
    /// They do not run: the job continues with its next tick.
    #[default]
    Skip,
    /// The latest is run at once, in place of all.
    RunLatest,
    /// The latest `at_most` are run, the oldest first, one after the other.
    RunAll {
        /// How many ticks may be behind, the one that is on time included: older ones are given
        /// up. 1 is as [`RunLatest`](Missed::RunLatest), 0 as [`Skip`](Missed::Skip), and more
        /// than 1,000 as 1,000.
        at_most: usize,
    },
}

/// What is done when a tick comes while the job's previous run is still going.
///
/// Two runs of a job never go at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "config", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "config", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Overlap {
    /// The run continues, and the tick counts as missed: [`Missed`] decides about it.
    #[default]
    Skip,
    /// The run continues, and the tick runs as soon as it has ended. One tick waits, the latest:
    /// those before it count as missed.
    Queue,
    /// The run is stopped, then the tick runs.
    Stop,
}

/// When a tick counts as done, should the replica that runs it crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "config", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "config", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Claim {
    /// Once its run starts: a run that is broken off is not repeated. Each tick runs at most once.
    #[default]
    AtStart,
    /// Once its run has ended: a run that is broken off is started again, by whichever replica is
    /// there. Each tick that is started runs at least once, so its work must bear repetition;
    /// up to [`max_attempts`](crate::Job::max_attempts) times and within
    /// [`catch_up`](crate::Job::catch_up).
    AtEnd,
}

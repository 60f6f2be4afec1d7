//! Options that decide about missed and overlapping ticks.

/// What is done about ticks that were not started in time, because the whole fleet was down or the
/// run before took longer.
///
/// Missed ticks are run until they are older than the job's `catch_up`. A tick that is on time
/// always runs.
///
/// ```
/// # #[cfg(feature = "serde")] {
/// use redlock_core::tick_policy::Missed;
///
/// let missed: Missed = serde_json::from_str(r#"{ "run_all": { "at_most": 12 } }"#)?;
/// assert_eq!(missed, Missed::RunAll { at_most: 12 });
/// assert_eq!(serde_json::to_string(&Missed::RunLatest)?, r#""run_latest""#);
/// # }
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
#[non_exhaustive]
pub enum Missed {
    /// They do not run: the job continues with its next tick.
    #[default]
    Skip,
    /// The latest is run at once, in place of all of them.
    RunLatest,
    /// The latest `at_most` are run, the oldest first, one after the other.
    RunAll {
        /// Maximum number of ticks that are run, including one that is on time; older ones are
        /// given up. 1 is as [`RunLatest`](Missed::RunLatest), 0 as [`Skip`](Missed::Skip), and more
        /// than 1,000 as 1,000.
        at_most: usize,
    },
}

/// What is done when a tick comes during the job's previous run.
///
/// Two runs of a job never overlap, unless it is parallel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Overlap {
    /// The run continues, and the tick counts as missed: [`Missed`] decides about it.
    #[default]
    Skip,
    /// The run continues, and the tick runs when it has ended. Only the latest tick waits; earlier
    /// ones count as missed.
    Queue,
    /// The run is stopped, then the tick runs.
    Stop,
}

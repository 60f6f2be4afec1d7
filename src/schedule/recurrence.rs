//! Custom rules.

use super::WallTime;

/// A rule of one's own for when a job is due; see [`Schedule::custom`](super::Schedule::custom).
///
/// The ticks must depend on nothing but the rule: a replica that computes other ticks runs the job
/// at other times. Closures are rules, too:
///
/// ```
/// use tower_redlock::schedule::{Schedule, WallTime};
///
/// // Twice as late each time: after 1 ms, 2 ms, 4 ms, …
/// let doubling = |after: WallTime| {
///     (after.as_millis() + 1).checked_next_power_of_two().map(WallTime::from_millis)
/// };
/// let schedule = Schedule::custom("doubling", doubling);
/// let at = WallTime::from_millis;
/// assert_eq!(schedule.next(at(4), None), Some(at(8)));
/// assert_eq!(schedule.latest(at(1_000)), Some(at(512)));
/// ```
pub trait Recurrence: Send + Sync + 'static {
    /// The earliest tick strictly after `after`; `None` where there is none.
    ///
    /// A later `after` must not give an earlier tick. A tick that is not after `after` counts as
    /// none.
    fn next(&self, after: WallTime) -> Option<WallTime>;
}

impl<F> Recurrence for F
where
    F: Fn(WallTime) -> Option<WallTime> + Send + Sync + 'static,
{
    fn next(&self, after: WallTime) -> Option<WallTime> {
        self(after)
    }
}

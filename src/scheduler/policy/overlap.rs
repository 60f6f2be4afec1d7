use super::timetable::Timetable;
use crate::schedule::{Schedule, WallTime};

/// The next tick that comes while a run of `running` goes on, and its start.
///
/// Its start is strictly after `seen`, the moment up to which starts were looked at: at first the
/// one for which the run was [due](super::due), then each start that was returned. With a later
/// reading of the clock, a tick in between would go unnoticed.
pub(in crate::scheduler) fn next_overlap(
    schedule: &Schedule,
    job: &str,
    running: WallTime,
    seen: WallTime,
) -> Option<(WallTime, WallTime)> {
    let times = Timetable { schedule, job };
    let tick = times.first_starting_after(running, seen)?;
    Some((tick, times.start(tick)))
}

//! Schedules that count from when the last run ended.

use super::{
    Due, Record,
    timetable::{Timetable, just_before},
};
use crate::schedule::WallTime;

/// A run that is due; nothing is missed here, only late.
pub(super) fn due(times: Timetable<'_>, record: &Record, now: WallTime) -> Due {
    let missed = None;
    let (after, end) = match record.tick {
        // A run that was broken off counts as one that took no time.
        Some(tick) => (tick, Some(record.last_end.unwrap_or(tick))),
        None => (just_before(record.base), record.last_end),
    };
    // Where it is not known whether there was a run, the next is not put off; only its name is new.
    let after = record.burnt.map_or(after, |burnt| after.max(burnt));
    let Some(tick) = times.schedule.next(after, end) else { return Due::Never { missed } };
    let start = times.start(tick);
    if start > now {
        return Due::Wait { tick, start, missed };
    }
    // A delay late or more: named by its own moment. Under its old name, a run that is broken off
    // would be followed by others at once, one for each delay that has passed.
    let late = times.schedule.next(tick, Some(start)).is_some_and(|next| next <= now);
    let (tick, start) = if late { (now, now) } else { (tick, start) };
    Due::Run { tick, start, again: false, missed }
}

//! Fuzz target of cron expressions.

#![allow(clippy::missing_panics_doc, reason = "a panic is a broken promise")]

use crate::schedule::{Schedule, WallTime};

/// Before a change of the clocks in Berlin.
const SPRING: u64 = 1_743_296_000_000;

/// Reads a cron expression. Its zone may follow in a second line.
///
/// Its canonical text is the same schedule. The ticks increase, and each is the next one of any moment
/// between it and the one before.
pub fn cron(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (expression, zone) = text.split_once('\n').unwrap_or((text, "Europe/Berlin"));
    let Ok(cron) = Schedule::cron(expression) else { return };
    let Ok(schedule) = cron.in_tz(zone).map(Schedule::from) else { return };
    let fingerprint = schedule.fingerprint_text();
    let (_, canonical) = fingerprint.split_once(' ').expect("a kind");
    let (canonical, zone) = canonical.rsplit_once(" in ").expect("a zone");
    let again = Schedule::cron(canonical).and_then(|again| again.in_tz(zone)).expect("valid");
    assert_eq!(Schedule::from(again).fingerprint_text(), fingerprint);
    let mut after = WallTime::from_millis(SPRING);
    for _ in 0..4 {
        let Some(next) = schedule.next(after, None) else { return };
        assert!(next > after);
        let between = after.as_millis().midpoint(next.as_millis());
        for before in [between, next.as_millis() - 1] {
            let before = WallTime::from_millis(before);
            assert_eq!(schedule.next(before, None), Some(next), "{fingerprint} after {before}");
        }
        assert_eq!(schedule.latest(next), Some(next));
        after = next;
    }
}

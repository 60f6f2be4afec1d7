//! Recently broken connections.

use std::{collections::VecDeque, time::Duration};

use crate::{error::Reason, time::Timestamp};

/// Time after which a broken connection is forgotten.
const WINDOW: Duration = Duration::from_secs(60);
/// Minimum number of broken connections within the window that is reported.
const REPORT_THRESHOLD: usize = 3;
/// Maximum number of broken connections that are counted.
const MAX_COUNTED: usize = 100;

/// The connections to a server that broke within the last minute.
#[derive(Debug, Default)]
pub(super) struct Breaks {
    times: VecDeque<Timestamp>,
    latest: Option<Reason>,
}

impl Breaks {
    pub(super) fn note(&mut self, reason: Reason, now: Timestamp) {
        if self.times.len() == MAX_COUNTED {
            self.times.pop_front();
        }
        self.times.push_back(now);
        self.latest = Some(reason);
    }

    /// Returns the number of broken connections and the latest reason, if the number is high enough
    /// to report.
    pub(super) fn many(&self, now: Timestamp) -> Option<(usize, Reason)> {
        let is_recent = |at: &&Timestamp| now.saturating_duration_since(**at) < WINDOW;
        let count = self.times.iter().filter(is_recent).count();
        let reason = self.latest.clone().filter(|_| count >= REPORT_THRESHOLD)?;
        Some((count, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breaks_are_reported_for_a_minute() {
        let at = |seconds| Timestamp::ZERO + Duration::from_secs(seconds);
        let mut breaks = Breaks::default();

        assert_eq!(breaks.many(at(0)), None);

        breaks.note(Reason::Disconnected, at(1));
        breaks.note(Reason::Disconnected, at(2));
        assert_eq!(breaks.many(at(2)), None);

        breaks.note(Reason::TimedOut, at(3));
        assert_eq!(breaks.many(at(60)), Some((3, Reason::TimedOut)));
        assert_eq!(breaks.many(at(61)), None);

        for _ in 0..1_000 {
            breaks.note(Reason::Loading, at(70));
        }
        assert_eq!(breaks.many(at(70)), Some((MAX_COUNTED, Reason::Loading)));
    }
}

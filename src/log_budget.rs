//! The number of frequent messages that are logged at their own level.

use std::time::Duration;

use tokio::time::Instant;

/// Number of messages that are logged in a row.
const BURST: u32 = 20;
/// Interval between messages afterwards, and the time without messages after which the state has
/// settled.
const INTERVAL: Duration = Duration::from_secs(60);

/// The messages about one thing that may still be logged: a burst, and one a minute afterwards.
/// Messages in excess are logged at DEBUG.
///
/// The times are counted on a clock that servers do not put forward.
#[derive(Debug)]
pub(crate) struct LogBudget {
    left: u32,
    /// The time at which a message was last added to the budget.
    added: Instant,
    /// Number of messages in excess since the state last settled, and the time of the latest.
    excess: Option<(u64, Instant)>,
}

/// The level at which a message is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageLevel {
    Own,
    /// At DEBUG. The first message in excess is announced by a warning.
    FirstInExcess,
    Debug,
}

impl LogBudget {
    pub(crate) fn new(now: Instant) -> Self {
        Self { left: BURST, added: now, excess: None }
    }

    /// Counts a message.
    pub(crate) fn take(&mut self, now: Instant) -> MessageLevel {
        while self.left < BURST && now >= self.added + INTERVAL {
            self.left += 1;
            self.added += INTERVAL;
        }
        if self.left == BURST {
            self.added = now;
        }
        if self.left > 0 {
            self.left -= 1;
            return MessageLevel::Own;
        }
        let excess = self.excess.map_or(0, |(count, _)| count);
        self.excess = Some((excess + 1, now));
        if excess == 0 { MessageLevel::FirstInExcess } else { MessageLevel::Debug }
    }

    /// Returns the number of messages in excess if there was none recently. The next message in
    /// excess is then the first one again.
    pub(crate) fn settle(&mut self, now: Instant) -> Option<u64> {
        let (count, _) = self.excess.take_if(|(_, latest)| now >= *latest + INTERVAL)?;
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_changes_log_once_a_minute() {
        const DAY: u64 = 24 * 60 * 60;
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut budget = LogBudget::new(begun);
        let levels: Vec<_> = (0..DAY).map(|second| budget.take(at(second))).collect();

        let count = |level| levels.iter().filter(|known| **known == level).count();

        assert_eq!(count(MessageLevel::FirstInExcess), 1);

        let own = count(MessageLevel::Own);
        assert!(own >= 1_440 && own <= 1_440 + BURST as usize, "{own} messages");
        assert_eq!(budget.settle(at(DAY)), None);
        assert_eq!(budget.settle(at(DAY + 60)), Some(DAY - own as u64));
        assert_eq!(budget.settle(at(DAY + 60)), None);
    }

    #[test]
    fn rare_changes_are_all_logged() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);

        let mut budget = LogBudget::new(begun);

        for number in 0..1_000 {
            assert_eq!(budget.take(at(number * 61)), MessageLevel::Own);
        }

        let day_later = 2 * 24 * 60 * 60;
        for _ in 0..BURST {
            assert_eq!(budget.take(at(day_later)), MessageLevel::Own);
        }
        assert_eq!(budget.take(at(day_later)), MessageLevel::FirstInExcess);
    }
}

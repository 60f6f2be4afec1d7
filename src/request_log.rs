//! Log messages about the requests that a layer rejects.

use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::{
    log_budget::{LogBudget, MessageLevel},
    sync::{self, Mutex},
};

/// The messages about rejected requests of one layer that may still be logged, by the outcome of the requests.
///
/// Nothing ran in such a request, so the messages need not name every resource. A message about work that was
/// stopped or lost its lock is never left out.
#[derive(Debug, Default)]
pub(crate) struct RequestLog(Mutex<BTreeMap<&'static str, OutcomeLog>>);

#[derive(Debug)]
struct OutcomeLog {
    budget: LogBudget,
    /// Number of messages at DEBUG since the latest one at its own level.
    suppressed: u64,
}

impl RequestLog {
    /// Counts a message. Returns its level and, if that is its own, the number of messages that were logged at
    /// DEBUG since the latest one.
    pub(crate) fn take(&self, outcome: &'static str, now: Instant) -> (MessageLevel, Option<u64>) {
        let mut outcomes = sync::lock(&self.0);
        let new = || OutcomeLog { budget: LogBudget::new(now), suppressed: 0 };
        let OutcomeLog { budget, suppressed } = outcomes.entry(outcome).or_insert_with(new);
        budget.settle(now);
        let level = budget.take(now);
        if level == MessageLevel::Own {
            let count = std::mem::take(suppressed);
            return (level, (count > 0).then_some(count));
        }
        *suppressed += 1;
        (level, None)
    }

    /// Logs that the following messages are at DEBUG.
    pub(crate) fn announce_excess(outcome: &'static str) {
        crate::log::warn!(
            outcome,
            "many requests are rejected: from now on most of these lines are logged at DEBUG"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn next_line_counts_suppressed_rejections() {
        const MESSAGES: u64 = 900;
        const MINUTE: Duration = Duration::from_secs(60);
        let begun = Instant::now();
        let log = RequestLog::default();
        let burst = 20;

        let levels: Vec<_> = (0..MESSAGES).map(|_| log.take("no-quorum", begun)).collect();

        let own = levels.iter().filter(|level| **level == (MessageLevel::Own, None)).count();
        assert_eq!(own as u64, burst);
        assert_eq!(levels[own], (MessageLevel::FirstInExcess, None));
        assert_eq!(levels[own + 1], (MessageLevel::Debug, None));
        assert_eq!(log.take("too-slow", begun), (MessageLevel::Own, None), "another outcome");

        let later = begun + MINUTE;
        assert_eq!(log.take("no-quorum", later), (MessageLevel::Own, Some(MESSAGES - burst)));
        assert_eq!(log.take("no-quorum", later), (MessageLevel::FirstInExcess, None), "once more");
        assert_eq!(log.take("no-quorum", later + MINUTE), (MessageLevel::Own, Some(1)));
    }
}

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::time::{Timers, Timestamp};

/// Which nodes' clocks jumped, and when it was seen: what they confirmed before is worth nothing.
#[derive(Debug)]
pub(crate) struct Soundness {
    timers: Arc<Timers>,
    /// How many jumps there were: what every lease compares before it does anything.
    epoch: AtomicU64,
    jumps: Box<[Mutex<VecDeque<Jump>>]>,
}

/// A server's clock jumped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jump {
    /// When it was seen.
    pub(crate) seen: Timestamp,
    pub(crate) by_micros: i64,
    /// The most that it can have been, in either direction.
    pub(crate) at_most: Duration,
}

/// So many jumps of a node are told apart; earlier ones are added to the oldest of these.
const RECENT: usize = 16;

impl Soundness {
    pub(crate) fn new(nodes: usize, timers: Arc<Timers>) -> Self {
        Self {
            timers,
            epoch: AtomicU64::new(0),
            jumps: (0..nodes).map(|_| Mutex::default()).collect(),
        }
    }

    /// A node's clock jumped: every lease looks at once at what that leaves it.
    pub(crate) fn jumped(&self, node: usize, jump: Jump) {
        {
            let mut jumps = crate::sync::lock(&self.jumps[node]);
            if jumps.len() == RECENT
                && let Some(oldest) = jumps.pop_front()
                && let Some(next) = jumps.front_mut()
            {
                next.at_most = next.at_most.saturating_add(oldest.at_most);
            }
            jumps.push_back(jump);
        }
        self.epoch.fetch_add(1, Ordering::AcqRel);
        self.timers.wake_all();
    }

    /// The clock was put forward: every lease looks at its deadline.
    pub(crate) fn look_again(&self) {
        self.timers.wake_all();
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The nodes whose clocks jumped since a moment by more than `slack`, all in all, and their
    /// latest jump. By less they dropped no key within a validity that leaves that much aside.
    pub(crate) fn jumps(
        &self,
        since: Timestamp,
        slack: Duration,
    ) -> impl Iterator<Item = (usize, Jump)> + '_ {
        self.jumps.iter().enumerate().filter_map(move |(node, jumps)| {
            let jumps = crate::sync::lock(jumps);
            let recent = jumps.iter().filter(|jump| jump.seen >= since);
            let all = recent.fold(Duration::ZERO, |sum, jump| sum.saturating_add(jump.at_most));
            let latest = *jumps.back()?;
            (latest.seen >= since && all > slack).then_some((node, latest))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SystemClock;

    #[test]
    fn small_jumps_add_up_until_they_are_more_than_a_lock_sets_aside() {
        let timers = Arc::new(Timers::new(Arc::new(SystemClock::new())));
        let soundness = Soundness::new(2, timers);
        let (ms, at) = (Duration::from_millis, |ms: u64| Timestamp::from_nanos(ms * 1_000_000));
        let unsound = |since, slack| -> Vec<usize> {
            soundness.jumps(at(since), ms(slack)).map(|(node, _)| node).collect()
        };
        for second in 1..=3 {
            let jump = Jump { seen: at(second * 1_000), by_micros: 40_000, at_most: ms(41) };
            soundness.jumped(1, jump);
        }
        assert!(unsound(0, 123).is_empty());
        assert_eq!(unsound(0, 122), [1]);
        assert!(unsound(1_500, 122).is_empty(), "one was before the lock");
        assert_eq!(unsound(1_500, 81), [1]);
        for second in 4..100 {
            let jump = Jump { seen: at(second * 1_000), by_micros: 1_000, at_most: ms(1) };
            soundness.jumped(1, jump);
        }
        assert!(unsound(99_000, 200).is_empty(), "only the last one counts for a young lock");
        assert_eq!(unsound(500, 200), [1], "none is forgotten");
        assert_eq!(soundness.epoch(), 99);
    }
}

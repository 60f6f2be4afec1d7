//! Jumps of the nodes' clocks, for the leases that the nodes confirmed.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use crate::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Timers, Timestamp},
};

/// The latest jumps of each node's clock.
#[derive(Debug)]
pub(crate) struct ClockJumps {
    timers: Arc<Timers>,
    /// Number of jumps so far. Every lease compares it before its list of jumps.
    epoch: AtomicU64,
    jumps: Mutex<Box<[VecDeque<Numbered>]>>,
}

/// A jump, and the epoch that it started.
#[derive(Clone, Copy, Debug)]
struct Numbered(u64, ClockJump);

/// A jump of a server's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockJump {
    /// Time at which the jump was observed.
    pub(crate) seen: Timestamp,
    pub(crate) by_micros: i64,
    /// Maximum size of the jump, in either direction.
    pub(crate) at_most: Duration,
}

/// Maximum number of jumps kept for each node. Earlier jumps are added to the oldest one kept.
const MAX_JUMPS: usize = 16;

impl ClockJumps {
    pub(crate) fn new(nodes: usize, timers: Arc<Timers>) -> Self {
        let jumps = (0..nodes).map(|_| VecDeque::new()).collect();
        Self { timers, epoch: AtomicU64::new(0), jumps: Mutex::new(jumps) }
    }

    /// Records a jump; every lease then checks its validity.
    pub(crate) fn jumped(&self, node: usize, jump: ClockJump) {
        {
            let mut jumps = crate::sync::lock(&self.jumps);
            let jumps = &mut jumps[node];
            if jumps.len() == MAX_JUMPS
                && let Some(Numbered(_, oldest)) = jumps.pop_front()
                && let Some(Numbered(_, next)) = jumps.front_mut()
            {
                next.at_most = next.at_most.saturating_add(oldest.at_most);
            }
            // Under the mutex, so that a reader of the epoch finds the jump.
            let epoch = self.epoch.load(Ordering::Relaxed) + 1;
            jumps.push_back(Numbered(epoch, jump));
            debug_assert!(jumps.len() <= MAX_JUMPS, "earlier jumps are merged");
            self.epoch.store(epoch, Ordering::Release);
        }
        self.timers.wake_all();
    }

    /// Makes every lease check its deadline again, after the clock was put forward.
    pub(crate) fn recheck(&self) {
        self.timers.wake_all();
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Returns the jumps after an epoch, with the nodes whose clocks jumped, and the present epoch.
    pub(crate) fn jumps_since(&self, epoch: u64) -> (Vec<(usize, ClockJump)>, u64) {
        let jumps = crate::sync::lock(&self.jumps);
        let of_node = |(node, jumps): (usize, &VecDeque<Numbered>)| {
            let new = jumps.iter().filter(|Numbered(began, _)| *began > epoch);
            new.map(|Numbered(_, jump)| (node, *jump)).collect::<Vec<_>>()
        };
        (jumps.iter().enumerate().flat_map(of_node).collect(), self.epoch.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SystemClock;

    #[test]
    fn jumps_of_a_node_add_up() {
        let timers = Arc::new(Timers::new(Arc::new(SystemClock::new())));
        let clock_jumps = ClockJumps::new(2, timers);
        let ms = Duration::from_millis;
        let total = |epoch| -> Duration {
            clock_jumps.jumps_since(epoch).0.iter().map(|(_, jump)| jump.at_most).sum()
        };

        for second in 1..=100 {
            let seen = Timestamp::ZERO + ms(second * 1_000);
            clock_jumps.jumped(1, ClockJump { seen, by_micros: 1_000, at_most: ms(1) });
        }

        assert_eq!(clock_jumps.epoch(), 100);
        assert_eq!(total(0), ms(100), "none is forgotten");
        assert_eq!(total(99), ms(1), "only the last one counts for a young lock");
        assert_eq!(total(100), ms(0));
        assert!(clock_jumps.jumps_since(0).0.iter().all(|(node, _)| *node == 1));
    }
}

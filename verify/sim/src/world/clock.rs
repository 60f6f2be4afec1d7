//! The clock of a client's machine.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tower_redlock::time::{Clock, Timestamp};

use crate::net::{EPOCH, Net};

/// A clock with its own rate. It may pause, like the clock of a paused virtual machine.
#[derive(Clone, Debug)]
pub(super) struct HostClock {
    net: Net,
    /// Its relative speed above true time, in millionths.
    fast_by: i64,
    /// The lead of its wall clock, in µs.
    wall_ahead: i64,
    /// Total time of its pauses, in ns.
    paused: Arc<Mutex<u64>>,
}

/// The time of every clock at the start of a run.
const START: Duration = Duration::from_secs(86_400);

impl HostClock {
    /// Creates a clock with this rate and this wall clock.
    pub(super) fn new(net: &Net, fast_by: i64, wall_ahead: i64) -> Self {
        Self { net: net.clone(), fast_by, wall_ahead, paused: Arc::default() }
    }

    /// Subtracts a pause of the machine that began at `since`, in µs of true time. The clock continues
    /// with what it showed then: a slow one would go back if the pause were subtracted in true time.
    pub(super) fn skip_pause(&self, since: u64) {
        let pause = self.drifted(self.net.now()) - self.drifted(since);
        *self.paused.lock().unwrap_or_else(PoisonError::into_inner) += pause;
    }

    fn passed(&self) -> u64 {
        let paused = *self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        self.drifted(self.net.now()).saturating_sub(paused)
    }

    /// Returns a true time in µs as this clock counts it, in ns.
    fn drifted(&self, micros: u64) -> u64 {
        let passed = i128::from(micros) * 1_000;
        let drifted = passed + passed * i128::from(self.fast_by) / 1_000_000;
        u64::try_from(drifted).unwrap_or(0)
    }
}

impl Clock for HostClock {
    fn now(&self) -> Timestamp {
        Timestamp::ZERO + START + Duration::from_nanos(self.passed())
    }

    fn wall(&self) -> Duration {
        Duration::from_micros(EPOCH.saturating_add_signed(self.wall_ahead))
            + Duration::from_nanos(self.passed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{rng::Rng, trace::Trace};

    #[tokio::test(start_paused = true)]
    async fn paused_clock_never_goes_back() {
        let net = Net::new(1, Vec::new(), Rng::of(1, 1), Trace::new(false));
        for fast_by in [-4_000, 0, 4_000] {
            let clock = HostClock::new(&net, fast_by, 0);
            tokio::time::sleep(Duration::from_millis(1_234)).await;
            let (before, since) = (clock.now(), net.now());

            tokio::time::sleep(Duration::from_millis(1_751)).await;
            clock.skip_pause(since);

            assert_eq!(clock.now(), before);
        }
    }
}

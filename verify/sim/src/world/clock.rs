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
    stood: Arc<Mutex<u64>>,
}

/// The time of every clock at the start of a run.
const START: Duration = Duration::from_secs(86_400);

impl HostClock {
    /// Creates a clock with this rate and this wall clock.
    pub(super) fn new(net: &Net, fast_by: i64, wall_ahead: i64) -> Self {
        Self { net: net.clone(), fast_by, wall_ahead, stood: Arc::default() }
    }

    /// Subtracts a pause of the machine.
    pub(super) fn stood_still(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        *self.stood.lock().unwrap_or_else(PoisonError::into_inner) += nanos;
    }

    fn passed(&self) -> u64 {
        let passed = i128::from(self.net.now()) * 1_000;
        let drifted = passed + passed * i128::from(self.fast_by) / 1_000_000;
        let stood = *self.stood.lock().unwrap_or_else(PoisonError::into_inner);
        u64::try_from(drifted).unwrap_or(0).saturating_sub(stood)
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

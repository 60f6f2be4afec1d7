//! A machine whose wall clock is wrong.

use std::time::Duration;

use tower_redlock::time::{Clock, SystemClock, Timestamp};

/// The wall clock names the ticks, so replicas reach one at different times. Validity of locks does
/// not depend on it.
#[derive(Debug)]
pub(crate) struct SkewedClock {
    pub(crate) ahead: Duration,
}

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        SystemClock::new().now()
    }

    fn wall(&self) -> Duration {
        SystemClock::new().wall() + self.ahead
    }
}

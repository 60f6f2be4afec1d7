//! Servers whose wall clock the test sets.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::feature::{Feature, is_lacking};
use super::home::Home;
use super::resp::Resp;
use super::server::RedisServer;
use super::server_clock::Clock;
use super::wait::eventually;

/// Maximum difference of a server's TIME from the time that is set, in seconds: the server truncates to
/// microseconds, and Valkey 9 counts up to a millisecond by its monotonic clock.
const GRAIN: f64 = 0.002;

impl RedisServer {
    /// Starts a server whose wall clock can be set; further arguments as for
    /// [`with`](Self::with). For tests that [`has`](super::has) lets run with [`Feature::Clock`].
    #[track_caller]
    pub fn with_clock(args: &[&str]) -> Self {
        assert!(!is_lacking(Feature::Clock), "the test does not state that it needs a clock");
        let home = Home::new();
        let clock = Clock::new(home.file("clock"));
        Self::start_at(home, Some(clock), args)
    }

    /// Makes the server's wall clock differ from the system's by this number of seconds, and
    /// returns when the server shows it: Valkey 9 reads the clock at most once in a millisecond. A
    /// restarted server has the same clock. Its monotonic clock is not changed.
    #[track_caller]
    pub fn set_clock_offset(&self, seconds: f64) {
        self.set_clock_offset_unseen(seconds);
        eventually("the server shows the time that is set", || self.shows_offset(seconds));
    }

    /// Does the same for a server that does not answer at present: it reads the clock later.
    #[track_caller]
    pub fn set_clock_offset_unseen(&self, seconds: f64) {
        self.clock.as_ref().expect("a server that was started with a clock").set(seconds);
    }

    /// Whether the server's time differs from the system's by so many seconds.
    fn shows_offset(&self, seconds: f64) -> bool {
        let now =
            || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
        let earliest = now() + seconds - GRAIN;
        let time = self.time();
        (earliest..=now() + seconds + GRAIN).contains(&time)
    }

    /// The server's TIME, in seconds since 1970.
    pub fn time(&self) -> f64 {
        let parts = self.cli(&["TIME"]).items().into_iter().map(Resp::text);
        let parts: Vec<u64> = parts.map(|part| part.parse().expect("a number")).collect();
        (Duration::from_secs(parts[0]) + Duration::from_micros(parts[1])).as_secs_f64()
    }
}

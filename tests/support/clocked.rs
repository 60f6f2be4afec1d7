//! Servers whose wall clock the test sets.

use super::feature::{Feature, is_lacking};
use super::home::Home;
use super::server::RedisServer;
use super::server_clock::Clock;

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

    /// Lets the server's wall clock differ from the system's by so many seconds, from the next
    /// command on. A restarted server has the same clock. Its monotonic clock is left alone.
    #[track_caller]
    pub fn set_clock_offset(&self, seconds: f64) {
        self.clock.as_ref().expect("a server that was started with a clock").set(seconds);
    }
}

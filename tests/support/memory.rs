//! Servers whose memory is filled with keys that are not locks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::resp::Resp;
use super::server::RedisServer;
use super::wait::HANG_GUARD;

/// The size of the buffers of some clients, whose end must not free enough memory.
const SLACK: u64 = 512 * 1024;

impl RedisServer {
    /// Writes keys without expiry until the server refuses them, or evicts other keys for them. It
    /// needs a `maxmemory`. One that refuses gets it lowered a little, so that it has no room for
    /// a small key either.
    #[track_caller]
    pub fn fill_memory(&self) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let limit: u64 = self.config("maxmemory").parse().expect("a number of bytes");
        assert!(limit > 0, "{} has no maxmemory", self.addr());
        let value = "x".repeat(100_000);
        let (evicted, started) = (self.evictions(), Instant::now());
        while self.evictions() == evicted {
            assert!(started.elapsed() < HANG_GUARD, "{} is still not full", self.addr());
            let key = format!("filler:{}", NEXT.fetch_add(1, Ordering::Relaxed));
            match self.cli(&["SET", &key, &value]) {
                Resp::Simple(_) => {}
                Resp::Error(said) if said.starts_with("OOM") => {
                    self.set_config("maxmemory", &limit.saturating_sub(SLACK).max(1).to_string());
                    return;
                }
                other => panic!("{} does not take {key}: {other:?}", self.addr()),
            }
        }
    }

    /// How many keys were evicted since the start.
    #[track_caller]
    fn evictions(&self) -> u64 {
        let count = self.info("stats", "evicted_keys").expect("it is counted");
        count.parse().expect("a number")
    }
}

//! Servers whose memory is filled with keys that are not locks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::resp::Resp;
use super::server::RedisServer;
use super::wait::HANG_GUARD;

/// The size of the buffers of some clients, whose end must not free enough memory.
const SLACK: u64 = 512 * 1024;

#[derive(Debug, PartialEq, Eq)]
struct OutOfMemory;

impl RedisServer {
    /// Writes keys without expiry until the server refuses them, or evicts other keys for them. It
    /// needs a `maxmemory`. One that refuses gets it lowered a little, so that it has no room for
    /// a small key either.
    #[track_caller]
    pub fn fill_memory(&self) {
        let limit: u64 = self.config("maxmemory").parse().expect("a number of bytes");
        assert!(limit > 0, "{} has no maxmemory", self.addr());
        let evicted = self.evictions();
        if self.fill_until(|| self.evictions() > evicted) == Err(OutOfMemory) {
            self.set_config("maxmemory", &limit.saturating_sub(SLACK).max(1).to_string());
        }
    }

    /// Writes keys without expiry until the server has evicted this one for them. Where only keys
    /// that expire may be evicted, it may have no room left then.
    #[track_caller]
    pub fn evict(&self, key: &str) {
        assert!(self.exists(key), "{} has no {key}", self.addr());
        let filled = self.fill_until(|| !self.exists(key));
        assert!(!self.exists(key), "{} evicts no {key}: {filled:?}", self.addr());
    }

    #[track_caller]
    fn fill_until(&self, done: impl Fn() -> bool) -> Result<(), OutOfMemory> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let value = "x".repeat(100_000);
        let started = Instant::now();
        while !done() {
            assert!(started.elapsed() < HANG_GUARD, "{} is still not full", self.addr());
            let key = format!("filler:{}", NEXT.fetch_add(1, Ordering::Relaxed));
            match self.cli(&["SET", &key, &value]) {
                Resp::Simple(_) => {}
                Resp::Error(said) if said.starts_with("OOM") => return Err(OutOfMemory),
                other => panic!("{} does not take {key}: {other:?}", self.addr()),
            }
        }
        Ok(())
    }

    /// How many keys were evicted since the start.
    #[track_caller]
    fn evictions(&self) -> u64 {
        let count = self.info("stats", "evicted_keys").expect("it is counted");
        count.parse().expect("a number")
    }
}

//! Redlock as it is often implemented: `SET NX PX` on a majority within the TTL, and a script that
//! compares and deletes. As a control, the same oracle has to detect its violations.

use std::{fmt::Write, sync::Mutex, time::Duration};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower_redlock::time::{Clock, Timestamp};

use super::clock::HostClock;
use crate::{net::SimConnector, rng::Rng};

/// The client.
#[derive(Debug)]
pub(super) struct Naive {
    connector: SimConnector,
    pub(super) clock: HostClock,
    servers: usize,
    rng: Mutex<Rng>,
}

/// A lock, until its validity ends.
#[derive(Debug)]
pub(super) struct NaiveLock {
    key: String,
    nonce: String,
    pub(super) until: Timestamp,
}

const TIMEOUT: Duration = Duration::from_millis(50);
const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

impl Naive {
    pub(super) fn new(connector: SimConnector, clock: HostClock, servers: usize, rng: Rng) -> Self {
        Self { connector, clock, servers, rng: Mutex::new(rng) }
    }

    /// Attempts the lock once.
    pub(super) async fn lock(&self, name: &str, ttl: Duration) -> Option<NaiveLock> {
        let nonce = match self.rng.lock() {
            Ok(mut rng) => rng.hex40(),
            Err(_) => return None,
        };
        let (key, millis) = (format!("naive:lock:{name}"), ttl.as_millis().to_string());
        let started = self.clock.now();
        let mut granted = 0;
        for server in 0..self.servers {
            let command = ["SET", &key, &nonce, "NX", "PX", &millis];
            granted += usize::from(
                self.ask(server, &command).await.is_some_and(|r| r.starts_with(b"+OK")),
            );
        }
        let drift = ttl / 100 + Duration::from_millis(2);
        let lock = NaiveLock { key, nonce, until: started + ttl.saturating_sub(drift) };
        if granted > self.servers / 2 && self.clock.now() < lock.until {
            return Some(lock);
        }
        self.release(&lock).await;
        None
    }

    /// Deletes the keys.
    pub(super) async fn release(&self, lock: &NaiveLock) {
        for server in 0..self.servers {
            self.ask(server, &["EVAL", RELEASE, "1", &lock.key, &lock.nonce]).await;
        }
    }

    async fn ask(&self, server: usize, args: &[&str]) -> Option<Vec<u8>> {
        let asking = async {
            let mut stream = self.connector.open(server).await.ok()?;
            let mut command = format!("*{}\r\n", args.len());
            for arg in args {
                // Writing into memory does not fail.
                let _ = write!(command, "${}\r\n{arg}\r\n", arg.len());
            }
            stream.write_all(command.as_bytes()).await.ok()?;
            let mut reply = vec![0; 256];
            let length = stream.read(&mut reply).await.ok()?;
            reply.truncate(length);
            Some(reply)
        };
        tokio::time::timeout(TIMEOUT, asking).await.ok()?
    }
}

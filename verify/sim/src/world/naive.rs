//! Redlock as it is often implemented: `SET NX PX` on a majority within the TTL, and a script that
//! compares and deletes. And slots as they are often implemented: a majority of servers that each
//! count fewer holders than slots. As controls, the same oracle has to detect their violations.

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
    /// The script that releases it.
    release: &'static str,
    pub(super) until: Timestamp,
}

const TIMEOUT: Duration = Duration::from_millis(50);
const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// Adds a holder, with the end of its TTL, if there are fewer than slots.
const ADD_HOLDER: &str = "\
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
    if tonumber(all[i + 1]) <= now then redis.call('HDEL', KEYS[1], all[i]) end
end
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], now + ARGV[2])
return {ok = 'OK'}";
const REMOVE_HOLDER: &str = "return redis.call('HDEL', KEYS[1], ARGV[1])";

impl Naive {
    pub(super) fn new(connector: SimConnector, clock: HostClock, servers: usize, rng: Rng) -> Self {
        Self { connector, clock, servers, rng: Mutex::new(rng) }
    }

    /// Attempts the lock once.
    pub(super) async fn lock(&self, name: &str, ttl: Duration) -> Option<NaiveLock> {
        let (key, nonce) = (format!("naive:lock:{name}"), self.nonce()?);
        let millis = ttl.as_millis().to_string();
        let command = ["SET", &key, &nonce, "NX", "PX", &millis];
        self.acquire(&command, (&key, &nonce, RELEASE), ttl).await
    }

    /// Attempts once to be one of at most `slots` holders, as a majority of servers counts them.
    pub(super) async fn slot(&self, name: &str, slots: u32, ttl: Duration) -> Option<NaiveLock> {
        let (key, nonce) = (format!("naive:slots:{name}"), self.nonce()?);
        let (millis, slots) = (ttl.as_millis().to_string(), slots.to_string());
        let command = ["EVAL", ADD_HOLDER, "1", &key, &nonce, &millis, &slots];
        self.acquire(&command, (&key, &nonce, REMOVE_HOLDER), ttl).await
    }

    fn nonce(&self) -> Option<String> {
        self.rng.lock().ok().map(|mut rng| rng.hex40())
    }

    async fn acquire(
        &self,
        command: &[&str],
        (key, nonce, release): (&str, &str, &'static str),
        ttl: Duration,
    ) -> Option<NaiveLock> {
        let started = self.clock.now();
        let mut granted = 0;
        for server in 0..self.servers {
            granted +=
                usize::from(self.ask(server, command).await.is_some_and(|r| r.starts_with(b"+OK")));
        }
        let drift = ttl / 100 + Duration::from_millis(2);
        let (key, nonce) = (key.to_owned(), nonce.to_owned());
        let until = started + ttl.saturating_sub(drift);
        let lock = NaiveLock { key, nonce, release, until };
        if granted > self.servers / 2 && self.clock.now() < lock.until {
            return Some(lock);
        }
        self.release(&lock).await;
        None
    }

    /// Releases it on all servers.
    pub(super) async fn release(&self, lock: &NaiveLock) {
        for server in 0..self.servers {
            self.ask(server, &["EVAL", lock.release, "1", &lock.key, &lock.nonce]).await;
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

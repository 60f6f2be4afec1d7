//! The control: Redlock as it is commonly implemented. A quorum of `SET NX PX`, renewed by a quorum
//! of `PEXPIRE`, and released by compare-and-delete.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{Client, Cmd, Value};
use tokio::time::{sleep, timeout};
use tower_redlock::time::{Clock, SystemClock, Timestamp};

use crate::random::Random;

const DELETE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
     return redis.call('DEL', KEYS[1]) else return 0 end";
const RENEW: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
     return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end";

/// Returns the URL of a server, which may change between two connections.
pub type Url = Box<dyn Fn() -> Result<String, String> + Send + Sync>;

/// The settings of the control.
#[derive(Clone, Debug)]
pub struct PlainOptions {
    /// TTL of every key.
    pub ttl: Duration,
    /// Timeout for an answer of a server.
    pub node_timeout: Duration,
    /// The prefix of the keys.
    pub prefix: &'static str,
    /// Maximum age of a connection, as in connection pools; each lives for a tenth to all of it.
    pub lifetime: Option<Duration>,
    /// Determines nonces and pauses.
    pub seed: u64,
}

/// The client of one process.
#[derive(Debug)]
pub struct Plain {
    options: PlainOptions,
    nodes: Vec<Node>,
    /// The TTL minus the allowance for clocks of different rates.
    validity: Duration,
    random: Mutex<Random>,
}

/// A lock that counts as held until its validity ends.
#[derive(Debug)]
pub struct PlainLock {
    plain: Arc<Plain>,
    key: String,
    nonce: String,
    valid_until: Timestamp,
}

impl Plain {
    /// Creates a client that connects to each server with its first command.
    pub fn new(urls: impl IntoIterator<Item = Url>, options: PlainOptions) -> Self {
        let drift = options.ttl.mul_f64(0.01) + Duration::from_millis(2);
        Self {
            nodes: (2_000_000..)
                .zip(urls)
                .map(|(stream, url)| Node::new(url, &options, stream))
                .collect(),
            validity: options.ttl.saturating_sub(drift),
            random: Mutex::new(Random::stream(options.seed, 1_000_000)),
            options,
        }
    }

    /// Retries until the wait is over, at least once.
    pub async fn acquire(self: &Arc<Self>, name: &str, wait: Duration) -> Option<PlainLock> {
        let key = format!("{}:lock:{name}", self.options.prefix);
        let give_up = now() + wait;
        loop {
            let nonce = format!("{:016x}{:016x}", self.random(), self.random());
            let start = now();
            let mut set = redis::cmd("SET");
            set.arg(&key).arg(&nonce).arg("NX").arg("PX").arg(self.ttl_millis());
            let granted = self.ask_all(&set, &Value::Okay).await;
            let (plain, key) = (Arc::clone(self), key.clone());
            let lock = PlainLock { plain, key, nonce, valid_until: start + self.validity };
            if granted && !lock.remaining().is_zero() {
                return Some(lock);
            }
            lock.release().await;
            if now() >= give_up {
                return None;
            }
            let pause = self.random.lock().expect("nobody panics with it").millis(5..40);
            sleep(pause).await;
        }
    }

    /// Returns whether a quorum gave the answer.
    async fn ask_all(&self, command: &Cmd, answer: &Value) -> bool {
        let answers =
            join_all(self.nodes.iter().map(|node| node.ask(command, self.options.node_timeout)))
                .await;
        let right = answers.iter().filter(|given| given.as_ref() == Some(answer)).count();
        right > self.nodes.len() / 2
    }

    fn ttl_millis(&self) -> u64 {
        u64::try_from(self.options.ttl.as_millis()).expect("a short time")
    }

    fn random(&self) -> u64 {
        self.random.lock().expect("nobody panics with it").number()
    }
}

impl PlainLock {
    /// Time until the end of the validity.
    pub fn remaining(&self) -> Duration {
        self.valid_until.saturating_duration_since(now())
    }

    /// Renews it after a third of its validity, as this crate does.
    pub async fn keep(&mut self) {
        let remaining = self.remaining();
        if remaining.is_zero() || remaining > self.plain.validity * 2 / 3 {
            return;
        }
        let start = now();
        let mut renew = self.script(RENEW);
        renew.arg(self.plain.ttl_millis());
        let renewed = self.plain.ask_all(&renew, &Value::Int(1)).await;
        // An ended lock stays ended.
        if renewed && !self.remaining().is_zero() {
            self.valid_until = start + self.plain.validity;
        }
    }

    /// Deletes the keys that are still ours.
    pub async fn release(self) {
        self.plain.ask_all(&self.script(DELETE), &Value::Int(1)).await;
    }

    fn script(&self, script: &str) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(script).arg(1).arg(&self.key).arg(&self.nonce);
        command
    }
}

/// A server and the connection to it, which is reopened after it was closed.
struct Node {
    url: Url,
    lifetime: Option<Duration>,
    random: Mutex<Random>,
    open: Mutex<Option<Open>>,
}

#[derive(Clone)]
struct Open {
    connection: MultiplexedConnection,
    until: Option<Timestamp>,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").finish_non_exhaustive()
    }
}

impl Node {
    fn new(url: Url, options: &PlainOptions, stream: u64) -> Self {
        Self {
            url,
            lifetime: options.lifetime,
            random: Mutex::new(Random::stream(options.seed, stream)),
            open: Mutex::default(),
        }
    }

    /// Returns `None` without an answer in time.
    async fn ask(&self, command: &Cmd, limit: Duration) -> Option<Value> {
        timeout(limit, self.ask_patiently(command)).await.ok()?
    }

    async fn ask_patiently(&self, command: &Cmd) -> Option<Value> {
        let open = self.open.lock().expect("nobody panics with it").clone();
        let is_young = |open: &Open| open.until.is_none_or(|until| now() < until);
        let mut connection = if let Some(open) = open.filter(is_young) {
            open.connection
        } else {
            let client = Client::open((self.url)().ok()?).ok()?;
            let connection = client.get_multiplexed_async_connection().await.ok()?;
            let until = self.lifetime.map(|most| now() + self.random().times(most, 0.1, 1.0));
            self.keep(Some(Open { connection: connection.clone(), until }));
            connection
        };
        match command.query_async(&mut connection).await {
            Ok(answer) => Some(answer),
            Err(error) => {
                // A former master that was made a replica gives this answer permanently.
                if error.is_unrecoverable_error() || error.code() == Some("READONLY") {
                    self.keep(None);
                }
                None
            }
        }
    }

    fn keep(&self, open: Option<Open>) {
        *self.open.lock().expect("nobody panics with it") = open;
    }

    fn random(&self) -> MutexGuard<'_, Random> {
        self.random.lock().expect("nobody panics with it")
    }
}

fn now() -> Timestamp {
    SystemClock::new().now()
}

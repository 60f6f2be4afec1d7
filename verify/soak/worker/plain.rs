//! The control: Redlock as it is commonly written. A quorum of `SET NX PX`, renewed by a quorum of
//! `PEXPIRE`, and given back by compare-and-delete.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{Client, Cmd, Value};
use tokio::time::{sleep, timeout};
use tower_redlock::time::{Clock, SystemClock, Timestamp};

use super::locks::NODE_TIMEOUT;
use super::options::WorkerOptions;
use crate::random::Random;
use crate::trial::PREFIX;

const DELETE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
     return redis.call('DEL', KEYS[1]) else return 0 end";
const RENEW: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
     return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end";

#[derive(Debug)]
pub(super) struct Plain {
    nodes: Vec<Node>,
    ttl: Duration,
    /// The TTL less what is set aside for clocks of different rates.
    validity: Duration,
    random: Mutex<Random>,
}

#[derive(Debug)]
pub(super) struct PlainLock {
    plain: Arc<Plain>,
    key: String,
    nonce: String,
    valid_until: Timestamp,
}

impl Plain {
    pub(super) fn new<'a>(
        urls: impl Iterator<Item = &'a str>,
        options: &WorkerOptions,
    ) -> Result<Self, String> {
        let nodes: Result<_, _> = urls.map(Node::new).collect();
        let drift = options.ttl.mul_f64(0.01) + Duration::from_millis(2);
        let stream = u64::try_from(options.worker).expect("a small number");
        Ok(Self {
            nodes: nodes.map_err(|error| error.to_string())?,
            ttl: options.ttl,
            validity: options.ttl.saturating_sub(drift),
            random: Mutex::new(Random::stream(options.seed, 1_000_000 + stream)),
        })
    }

    pub(super) async fn acquire(self: &Arc<Self>, name: &str, wait: Duration) -> Option<PlainLock> {
        let key = format!("{PREFIX}:lock:{name}");
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

    /// Whether a quorum gave the answer.
    async fn ask_all(&self, command: &Cmd, answer: &Value) -> bool {
        let answers = join_all(self.nodes.iter().map(|node| node.ask(command))).await;
        let right = answers.iter().filter(|given| given.as_ref() == Some(answer)).count();
        right > self.nodes.len() / 2
    }

    fn ttl_millis(&self) -> u64 {
        u64::try_from(self.ttl.as_millis()).expect("a short time")
    }

    fn random(&self) -> u64 {
        self.random.lock().expect("nobody panics with it").next()
    }
}

impl PlainLock {
    pub(super) fn remaining(&self) -> Duration {
        self.valid_until.saturating_duration_since(now())
    }

    /// Renews it at a third of its validity, as this crate does.
    pub(super) async fn keep(&mut self) {
        let remaining = self.remaining();
        if remaining.is_zero() || remaining > self.plain.validity * 2 / 3 {
            return;
        }
        let start = now();
        let mut renew = self.script(RENEW);
        renew.arg(self.plain.ttl_millis());
        let renewed = self.plain.ask_all(&renew, &Value::Int(1)).await;
        // What is over stays over.
        if renewed && !self.remaining().is_zero() {
            self.valid_until = start + self.plain.validity;
        }
    }

    pub(super) async fn release(self) {
        self.plain.ask_all(&self.script(DELETE), &Value::Int(1)).await;
    }

    fn script(&self, script: &str) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(script).arg(1).arg(&self.key).arg(&self.nonce);
        command
    }
}

/// A server and the connection to it, which is opened anew when it was closed.
#[derive(Debug)]
struct Node {
    client: Client,
    connection: Mutex<Option<MultiplexedConnection>>,
}

impl Node {
    fn new(url: &str) -> redis::RedisResult<Self> {
        Ok(Self { client: Client::open(url)?, connection: Mutex::default() })
    }

    /// `None` without an answer in time.
    async fn ask(&self, command: &Cmd) -> Option<Value> {
        timeout(NODE_TIMEOUT, self.ask_patiently(command)).await.ok()?
    }

    async fn ask_patiently(&self, command: &Cmd) -> Option<Value> {
        let open = self.connection.lock().expect("nobody panics with it").clone();
        let mut connection = if let Some(connection) = open {
            connection
        } else {
            let opened = self.client.get_multiplexed_async_connection().await.ok()?;
            self.keep(Some(opened.clone()));
            opened
        };
        match command.query_async(&mut connection).await {
            Ok(answer) => Some(answer),
            Err(error) => {
                if error.is_unrecoverable_error() {
                    self.keep(None);
                }
                None
            }
        }
    }

    fn keep(&self, connection: Option<MultiplexedConnection>) {
        *self.connection.lock().expect("nobody panics with it") = connection;
    }
}

fn now() -> Timestamp {
    SystemClock::new().now()
}

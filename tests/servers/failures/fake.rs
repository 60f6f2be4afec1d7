//! Scripted servers whose greeting is like a real server's.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::support::{FakeServer, Reaction};

/// A server that completes the greeting, and answers later commands with `answer`.
pub(crate) fn greeting(
    answer: impl Fn(&[Vec<u8>]) -> Reaction + Send + Sync + 'static,
) -> FakeServer {
    let greeter = Greeter::new();
    FakeServer::start(move |command| greeter.greet(command).unwrap_or_else(|| answer(command)))
}

/// A server that answers everything with the same error.
pub(super) fn erring(message: &'static str) -> FakeServer {
    FakeServer::start(move |_| Reaction::error(message))
}

/// The answer to an acquire that is granted, and to a release of a key that was there.
pub(crate) fn granted(_: &[Vec<u8>]) -> Reaction {
    Reaction::int(1)
}

/// Whether the command is an acquire, or raises a fence.
pub(crate) fn votes(command: &[Vec<u8>]) -> bool {
    command.iter().any(|arg| arg.windows(8).any(|part| part == b":fences:"))
}

/// A healthy server during the greeting: it keeps the record of its membership.
#[derive(Debug)]
pub(crate) struct Greeter {
    run_id: String,
    record: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl Greeter {
    pub(crate) fn new() -> Self {
        static SERVERS: AtomicU64 = AtomicU64::new(0);
        let run_id = format!("{:040x}", SERVERS.fetch_add(1, Ordering::Relaxed));
        Self { run_id, record: Mutex::default() }
    }

    /// The answer to a command of the greeting, or of a health check.
    pub(crate) fn greet(&self, command: &[Vec<u8>]) -> Option<Reaction> {
        let name = String::from_utf8_lossy(command.first()?).to_ascii_uppercase();
        match name.as_str() {
            "SCRIPT" => Some(Reaction::bulk(&"a".repeat(40))),
            "INFO" => {
                let ids = format!("run_id:{}\r\nmaster_replid:{}", self.run_id, "0".repeat(40));
                let text = format!("# Server\r\nredis_version:7.0.15\r\nrole:master\r\n{ids}\r\n");
                Some(Reaction::bulk(&text))
            }
            "TIME" => Some(time()),
            "HMGET" => {
                let record = self.record.lock().unwrap();
                let stored = |field| match record.get(field) {
                    Some(value) => Reaction::bulk(&String::from_utf8_lossy(value)),
                    None => Reaction::Reply(b"$-1\r\n".to_vec()),
                };
                Some(Reaction::array(&command[2..].iter().map(stored).collect::<Vec<_>>()))
            }
            // A change of the record, which is the first of its three keys.
            "EVAL" if command[2] == b"3" && command[3].ends_with(b":meta") => {
                Some(self.change(&command[6..]))
            }
            "ZCARD" => Some(Reaction::int(1_024)),
            "EVALSHA" if command.get(2).is_some_and(|keys| keys == b"0") => {
                Some(Reaction::array(&[]))
            }
            // `EVAL` is the check of permissions.
            "CONFIG" | "EVAL" => Some(Reaction::array(&[])),
            "HSET" => Some(Reaction::int(0)),
            "AUTH" | "SELECT" | "CLIENT" => Some(Reaction::ok()),
            _ => None,
        }
    }

    /// Makes a change of the record without comparing any value.
    fn change(&self, args: &[Vec<u8>]) -> Reaction {
        let count = |arg: &[u8]| -> usize { std::str::from_utf8(arg).unwrap().parse().unwrap() };
        let fields = &args[1 + 2 * count(&args[0])..];
        let set = count(&fields[0]);
        let mut record = self.record.lock().unwrap();
        for pair in fields[1..=2 * set].chunks(2) {
            record.insert(pair[0].clone(), pair[1].clone());
        }
        Reaction::int(1)
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970")
}

fn time() -> Reaction {
    let now = now();
    let parts = [now.as_secs().to_string(), now.subsec_micros().to_string()];
    Reaction::array(&parts.map(|part| Reaction::bulk(&part)))
}

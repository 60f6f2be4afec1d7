//! Scripted servers that greet as a real one does.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::support::{FakeServer, Reaction};

/// A server that completes the greeting, and answers later commands with `answer`.
pub(super) fn greeting(
    answer: impl Fn(&[Vec<u8>]) -> Reaction + Send + Sync + 'static,
) -> FakeServer {
    FakeServer::start(move |command| greet(command).unwrap_or_else(|| answer(command)))
}

/// A server that answers everything with the same error.
pub(super) fn erring(message: &'static str) -> FakeServer {
    FakeServer::start(move |_| Reaction::error(message))
}

/// The answer to an acquire of one lock.
pub(super) fn granted(command: &[Vec<u8>]) -> Reaction {
    answering(command, Reaction::int(0))
}

/// The answer to a call of one acquire or release.
pub(crate) fn answering(command: &[Vec<u8>], answer: Reaction) -> Reaction {
    let text = |arg: &[u8]| String::from_utf8_lossy(arg).into_owned();
    let is_nonce = |arg: &Vec<u8>| arg.len() == 32 && arg.iter().all(u8::is_ascii_hexdigit);
    let head = match command.iter().position(is_nonce) {
        // The number of keys follows, negative for a release.
        Some(i) if command[i + 1].starts_with(b"-") => format!("-{}", text(&command[i])),
        Some(i) => text(&command[i]),
        None => String::new(),
    };
    let micros = i64::try_from(now().as_micros()).expect("before the year 294,000");
    Reaction::array(&[Reaction::bulk(&head), Reaction::int(micros), answer])
}

/// The answers of a healthy server to the commands of the greeting.
pub(crate) fn greet(command: &[Vec<u8>]) -> Option<Reaction> {
    let name = String::from_utf8_lossy(command.first()?).to_ascii_uppercase();
    match name.as_str() {
        "SCRIPT" => Some(Reaction::bulk(&"a".repeat(40))),
        "INFO" => Some(Reaction::bulk("# Server\r\nredis_version:7.0.15\r\nrole:master\r\n")),
        "TIME" => Some(time()),
        // The probe and the query of permissions.
        "EVAL" if command.len() <= 6 => Some(Reaction::array(&[])),
        "EVAL" => Some(enrolled(command)),
        "EVALSHA" if command.get(2).is_some_and(|keys| keys == b"0") => Some(Reaction::array(&[])),
        "CONFIG" => Some(Reaction::array(&[])),
        "HSET" => Some(Reaction::int(0)),
        "AUTH" | "SELECT" | "CLIENT" => Some(Reaction::ok()),
        _ => None,
    }
}

/// The answer to an enrolment, of an active node of the client's own layout.
fn enrolled(command: &[Vec<u8>]) -> Reaction {
    static SERVERS: AtomicU64 = AtomicU64::new(0);
    let text = |i: usize| String::from_utf8_lossy(&command[i]).into_owned();
    let (layout, max_ttl) = (text(4), text(7));
    let micros = i64::try_from(now().as_micros()).expect("before the year 294,000");
    let run_id = format!("{:040x}", SERVERS.fetch_add(1, Ordering::Relaxed));
    let incarnation = "0".repeat(32);
    Reaction::array(&[
        Reaction::int(micros),
        Reaction::bulk("master"),
        Reaction::bulk(&run_id),
        Reaction::bulk(&incarnation),
        Reaction::bulk(&format!("a {incarnation} {layout}")),
        Reaction::int(max_ttl.parse().expect("a number")),
        Reaction::int(0),
        Reaction::bulk(""),
        Reaction::bulk(""),
    ])
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970")
}

fn time() -> Reaction {
    let now = now();
    let parts = [now.as_secs().to_string(), now.subsec_micros().to_string()];
    Reaction::array(&parts.map(|part| Reaction::bulk(&part)))
}

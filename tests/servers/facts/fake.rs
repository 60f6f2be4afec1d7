//! Scripted servers that greet as a real one does.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::{FakeServer, Reaction};

/// A server that greets, and answers what follows with `answer`.
pub(super) fn greeting(
    answer: impl Fn(&[Vec<u8>]) -> Reaction + Send + Sync + 'static,
) -> FakeServer {
    FakeServer::start(move |command| greet(command).unwrap_or_else(|| answer(command)))
}

/// A server that answers everything with the same error.
pub(super) fn erring(message: &'static str) -> FakeServer {
    FakeServer::start(move |_| Reaction::error(message))
}

/// What a healthy server says to the commands of the greeting.
pub(super) fn greet(command: &[Vec<u8>]) -> Option<Reaction> {
    let name = String::from_utf8_lossy(command.first()?).to_ascii_uppercase();
    match name.as_str() {
        "SCRIPT" => Some(Reaction::bulk(&"a".repeat(40))),
        "INFO" => Some(Reaction::bulk("# Server\r\nredis_version:7.0.15\r\n")),
        "TIME" => Some(time()),
        "EVAL" => Some(Reaction::int(1024)),
        "AUTH" | "SELECT" | "CLIENT" => Some(Reaction::ok()),
        _ => None,
    }
}

fn time() -> Reaction {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let parts = [now.as_secs().to_string(), now.subsec_micros().to_string()];
    Reaction::array(&parts.map(|part| Reaction::bulk(&part)))
}

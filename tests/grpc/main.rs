//! A [`RedlockLayer`](tower_redlock::RedlockLayer) and a [`OnceLayer`](tower_redlock::OnceLayer) over gRPC: tonic's own server and
//! client over TCP, and real servers under the locks.

#[allow(dead_code, reason = "the tools of another test, of which only a part is used here")]
#[path = "../support/log.rs"]
mod logged;

mod bodies;
mod client;
mod contract;
mod crowd;
mod inside;
mod log;
mod lost;
mod once;
mod orders;
mod readers;
mod site;
mod slots;
mod statuses;
mod streams;
#[path = "../support/mod.rs"]
mod support;
mod timeouts;
mod turned_away;
mod unmatched;
mod wrapping;

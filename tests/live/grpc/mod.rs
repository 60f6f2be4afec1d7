//! A [`RedlockLayer`](tower_redlock::RedlockLayer) and a [`OnceLayer`](tower_redlock::OnceLayer) over gRPC: tonic's own server and
//! client over TCP, and real servers under the locks.

mod bodies;
mod client;
mod contract;
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
mod timeouts;
mod turned_away;
mod unmatched;
mod wrapping;

//! Requests that are handled once per key, over real connections, and nodes that fail on demand.

#[path = "../support/pair.rs"]
mod pair;
#[path = "../support/mod.rs"]
mod support;

mod by_body;
mod client;
mod gone;
mod idempotency;
mod keys;
mod marked;
mod repeats;
mod server_errors;
mod site;
mod stopped;
mod types;
mod waiting;

//! Requests that are handled once per key, over real connections, and nodes that fail on demand.

#[allow(dead_code, reason = "the tools of other tests, of which only a part is used here")]
#[path = "../support/upgrades.rs"]
mod handlers;
#[allow(dead_code, reason = "the tools of another test, of which only a part is used here")]
#[path = "../support/log.rs"]
mod log;
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
mod names;
mod repeats;
mod server_errors;
mod service_errors;
mod site;
mod stopped;
mod types;
mod upgrades;
mod waiting;

//! The layers, and work that is done once, over nodes inside the process: no test starts a server of its own.

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

mod client;

mod bad_input;
mod bodies;
mod composition;
mod fencing;
mod keys;
mod once;
mod once_http;

//! Requests that are handled once per key, over real connections, and nodes that fail on demand.

mod by_body;
mod fixture;
mod gone;
mod idempotency;
mod keys;
mod marked;
mod names;
mod repeats;
mod server_errors;
mod service_errors;
mod stopped;
mod types;
mod upgrades;
mod waiting;

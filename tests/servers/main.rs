//! Locks over real redis-server processes.

#[path = "../support/mod.rs"]
mod support;

mod smoke;

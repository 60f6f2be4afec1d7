//! Fences and records in a real PostgreSQL, with real processes that are stopped and killed.

#[path = "../../../../tests/support/mod.rs"]
mod support;

mod child;
mod cluster;
mod example;
mod fences;
mod hangs;
mod once;
mod processes;
mod stopped;
mod tables;

//! Managers and stores in a process that was forked: its thread is not there.
#![cfg(unix)]

#[path = "../support/mod.rs"]
mod support;

mod child;
mod requests;
#[cfg(feature = "http")]
mod store;

//! Managers and stores in a forked process, which lacks their threads.
#![cfg(unix)]

#[path = "../support/mod.rs"]
mod support;

mod child;
mod requests;
#[cfg(feature = "http")]
mod store;

//! Functions over foreign input, for `scripts/fuzz` and for tests; no part of the library.
//!
//! Each takes any bytes, and panics where a promise is broken. They are beside the code that they check,
//! and are listed here.

#![allow(clippy::missing_panics_doc, reason = "a panic is a broken promise")]

mod config;
mod cron;
mod headers;
#[cfg(test)]
mod tests;

pub use self::{config::config, cron::cron, headers::headers};
pub use crate::{
    key::fuzzing::{idempotency_key, json, keys},
    node::redis::fuzzing::{answers, resp, stored, urls},
    once::http::fuzzing::responses,
    scheduler::fuzzing::documents,
};

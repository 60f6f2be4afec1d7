//! When jobs are due.
#![cfg(feature = "scheduler")]

#[cfg(feature = "cron")]
mod clocks;
#[cfg(feature = "cron")]
mod cron;
mod errors;
mod jitter;
mod properties;
mod rules;
mod tools;
#[cfg(feature = "cron")]
mod year;

//! Ticks of schedules.
#![cfg(feature = "scheduler")]

#[cfg(feature = "cron")]
mod clocks;
#[cfg(feature = "cron")]
mod cron;
#[cfg(feature = "cron")]
mod crontab;
mod errors;
mod jitter;
mod properties;
mod rules;
mod shown;
mod tools;
#[cfg(feature = "cron")]
mod year;

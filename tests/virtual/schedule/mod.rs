//! Ticks of schedules.

mod clocks;
mod cron;
mod crontab;
mod errors;
mod jitter;
mod properties;
mod rules;
mod shown;
mod tools;
mod year;

//! Tests inside one process, without servers: on clocks that the tests move, and over embedded nodes.

#[path = "../support/mod.rs"]
mod support;

mod durations;
mod embedded;
mod fixture;
mod hard_stop;
mod leader;
mod schedule;
mod scheduler;
mod scheduler_years;
mod testing;
mod traces;

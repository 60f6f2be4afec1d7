//! Tests of the tools that make servers and networks fail.

mod clock;
mod late_requests;
mod memory;
mod replication;
mod restarts;
mod urls;

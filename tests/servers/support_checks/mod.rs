//! Tests of the tools that cause failures of servers and networks.

mod clock;
mod late_requests;
mod memory;
mod replication;
mod restarts;
mod urls;

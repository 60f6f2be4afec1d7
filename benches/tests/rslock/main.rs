//! rslock and this crate: the rows of the table in the README.
//!
//! Each module of a row has a test for each column: a lock by `SET NX PX` on one server, rslock over three servers,
//! and this crate over three servers. All use real server processes.

#[allow(dead_code, reason = "only a part is used here")]
#[path = "../../../tests/servers/fixture/child.rs"]
mod child;
#[path = "../../../tests/support/mod.rs"]
mod support;

mod clients;
mod outlived;
mod restart;
mod servers_change;
mod stall;

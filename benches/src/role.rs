//! Starts this program as another process, with a role and orders in environment variables.

use std::process::{Child, Command, Stdio};

const VARIABLE: &str = "TOWER_REDLOCK_BENCH_ROLE";

/// Starts a process whose standard input and output are pipes.
pub(crate) fn start(role: &str, orders: &str) -> Child {
    Command::new(std::env::current_exe().expect("it has a path"))
        .env(VARIABLE, format!("{role} {orders}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts again")
}

/// Returns the role of this process and its orders, if it has one.
pub(crate) fn of_this_process() -> Option<(String, String)> {
    let text = std::env::var(VARIABLE).ok()?;
    let (role, orders) = text.split_once(' ')?;
    Some((role.into(), orders.into()))
}

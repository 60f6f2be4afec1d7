//! Whether the clock of a server can be set.

use std::net::SocketAddr;

use crate::ask::command;
use crate::launch::PATIENCE;
use crate::support::server_clock::Clock;

/// Moves the clock and compares what the server shows: libfaketime may be there and have no effect.
pub fn check(server: SocketAddr, clock: &Clock) -> Result<(), String> {
    let before = time(server)?;
    clock.set(1_000.0);
    let after = time(server)?;
    clock.set(0.0);
    if (990..1_100).contains(&(after - before)) {
        return Ok(());
    }
    Err(format!(
        "the clock of a server can't be set here, though libfaketime is there: it went from \
         {before} to {after}"
    ))
}

fn time(server: SocketAddr) -> Result<i64, String> {
    let reply =
        command(server, PATIENCE, &["TIME"]).map_err(|error| format!("{server}: {error}"))?;
    let time = reply.items().swap_remove(0).text();
    time.parse().map_err(|_| format!("no time: {time}"))
}

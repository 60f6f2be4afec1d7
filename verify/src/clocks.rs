//! Checks whether the clock of a server can be set.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::ask::command;
use crate::launch::PATIENCE;
use crate::support::server_clock::Clock;

/// Timeout for a server to show a new time: Valkey 9 reads the clock at most once in a millisecond.
/// millisecond.
const SEEN_WITHIN: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(2);

/// Moves the clock and compares the server's time, as libfaketime may be installed without having
/// an effect.
pub fn check(server: SocketAddr, clock: &Clock) -> Result<(), String> {
    let before = time(server)?;
    clock.set(1_000.0);
    let set = Instant::now();
    let result = loop {
        let after = time(server)?;
        if (990..1_100).contains(&(after - before)) {
            break Ok(());
        }
        if set.elapsed() > SEEN_WITHIN {
            break Err(format!(
                "the clock of a server can't be set here, though libfaketime is there: it went from \
                 {before} to {after}"
            ));
        }
        thread::sleep(STEP);
    };
    clock.set(0.0);
    result
}

fn time(server: SocketAddr) -> Result<i64, String> {
    let reply =
        command(server, PATIENCE, &["TIME"]).map_err(|error| format!("{server}: {error}"))?;
    let time = reply.items().swap_remove(0).text();
    time.parse().map_err(|_| format!("no time: {time}"))
}

//! Starts a server, and detects that it is up.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::ask::ask;
use crate::support::process::Process;
pub use crate::support::program::program;
use crate::support::resp::Resp;
use crate::support::server_clock::Clock;

/// Timeout for any event.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Starts a server with the data in the directory, and waits until it answers. `before` precedes
/// the program, `extra` follows its own arguments.
pub fn launch(
    addr: SocketAddr,
    dir: &Path,
    log: &Path,
    clock: Option<&Clock>,
    before: &[&str],
    extra: &[String],
) -> Result<Process, String> {
    let mut command: Vec<String> = before.iter().copied().map(str::to_owned).collect();
    command.extend(clock.map_or_else(Vec::new, Clock::prefix));
    let (port, dir) = (addr.port().to_string(), dir.display().to_string());
    command.extend(
        [
            program()?,
            "--port",
            &port,
            "--bind",
            "127.0.0.1",
            "--dir",
            &dir,
            "--daemonize",
            "no",
            "--save",
            "",
            "--appendonly",
            "no",
            // Replicas need not wait for further ones.
            "--repl-diskless-sync",
            "yes",
            "--repl-diskless-sync-delay",
            "0",
        ]
        .map(str::to_owned),
    );
    command.extend_from_slice(extra);
    let mut process = Process::spawn(&command, log);
    let started = Instant::now();
    loop {
        let ended = process.has_ended();
        let said = fs::read(log).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        // An answer alone could come from another server that took the port.
        let is_up = said.contains("Ready to accept connections") && answers(addr);
        let is_given_up = ended || started.elapsed() > PATIENCE;
        if let Some(clock) = clock.filter(|_| is_up || is_given_up) {
            clock.settle(process.pid());
        }
        if is_up {
            return Ok(process);
        }
        if is_given_up {
            let what = if ended { "ended at once" } else { "does not answer" };
            let lines: Vec<&str> = said.lines().collect();
            let last = lines[lines.len().saturating_sub(20)..].join("\n");
            return Err(format!("the server at {addr} {what}:\n{last}"));
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn answers(addr: SocketAddr) -> bool {
    let answer = ask(addr, PATIENCE, &["PING"]);
    answer.is_ok_and(|reply| !matches!(reply, Resp::Error(error) if error.starts_with("LOADING")))
}

//! Starts a server process, and detects that it is up.

use std::net::SocketAddr;
use std::time::{Duration, Instant};
use std::{fs, thread};

use super::cli;
use super::home::Home;
use super::process::Process;
use super::program::program;
use super::resp::Resp;
use super::server_clock::Clock;
use super::wait::HANG_GUARD;

#[derive(Debug)]
pub struct PortTaken;

/// Starts a server and waits until it answers.
pub fn launch(
    addr: SocketAddr,
    args: &[String],
    home: &Home,
    clock: Option<&Clock>,
) -> Result<Process, PortTaken> {
    let port = addr.port().to_string();
    let data = home.data();
    let ours = [
        program().unwrap_or_else(|missing| panic!("{missing}")),
        "--port",
        &port,
        "--bind",
        "127.0.0.1",
        "--dir",
        data.to_str().expect("the temporary directory's name is UTF-8"),
        "--daemonize",
        "no",
        "--save",
        "",
        "--appendonly",
        "no",
    ];
    let mut command = clock.map_or_else(Vec::new, Clock::prefix);
    command.extend(ours.map(ToOwned::to_owned));
    command.extend_from_slice(args);

    let log = home.log();
    // Output of an earlier process must not be taken for this one's.
    fs::write(&log, "").expect("the directory is ours");
    let mut process = Process::spawn(&command, &log);
    let started = Instant::now();
    loop {
        let ended = process.has_ended();
        let said = fs::read(&log).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        if said.contains("Address already in use") {
            return Err(PortTaken);
        }
        // An answer alone could come from another server that took the port.
        if said.contains("Ready to accept connections") && answers(addr) {
            if let Some(clock) = clock {
                clock.settle(process.pid());
            }
            return Ok(process);
        }
        assert!(!ended, "{command:?} ended at once:\n{}", tail(&said));
        assert!(started.elapsed() < HANG_GUARD, "{command:?} does not answer:\n{}", tail(&said));
        thread::sleep(Duration::from_millis(2));
    }
}

/// Any answer counts, including one that requires a password.
fn answers(addr: SocketAddr) -> bool {
    match cli::roundtrip(addr, None, &["PING"]) {
        Ok(Resp::Error(message)) => !message.starts_with("LOADING"),
        Ok(_) => true,
        Err(_) => false,
    }
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

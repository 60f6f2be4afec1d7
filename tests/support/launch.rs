//! Starting a server process, and telling that it is up.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use super::cli;
use super::home::Home;
use super::process::Process;
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
        program(),
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
    // What an earlier process said there must not be taken for this one's.
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

/// Any answer will do, also one that asks for a password.
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

pub fn program() -> &'static str {
    static FOUND: OnceLock<Option<&str>> = OnceLock::new();
    let installed = |name: &&str| {
        let run = Command::new(name).arg("--version").stdout(Stdio::null()).status();
        !run.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    FOUND.get_or_init(|| ["redis-server", "valkey-server"].into_iter().find(installed)).expect(
        "redis-server was not found: run scripts/test, or install it: \
         apt-get install redis-server | dnf install redis | brew install redis",
    )
}

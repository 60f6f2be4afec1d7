//! Starting a server process, and telling that it is up.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use super::cli;
use super::process::Process;
use super::resp::Resp;
use super::temp_dir::TempDir;
use super::wait::HANG_GUARD;

/// The process first: it must be gone before its directory is removed.
#[derive(Debug)]
pub struct Running {
    pub process: Process,
    _dir: TempDir,
}

#[derive(Debug)]
pub struct PortTaken;

/// Starts a server and waits until it answers.
pub fn launch(addr: SocketAddr, args: &[String]) -> Result<Running, PortTaken> {
    let dir = TempDir::new();
    let log = dir.path().join("server.log");
    let port_arg = addr.port().to_string();
    let dir_arg = dir.path().to_str().expect("the temporary directory's name is UTF-8");
    let ours = [
        ("--port", port_arg.as_str()),
        ("--bind", "127.0.0.1"),
        ("--dir", dir_arg),
        ("--daemonize", "no"),
        ("--save", ""),
        ("--appendonly", "no"),
    ];
    let ours = ours.iter().flat_map(|(name, value)| [name.to_string(), value.to_string()]);
    let all: Vec<String> = ours.chain(args.iter().cloned()).collect();
    let mut process = Process::spawn(program(), &all, &log);

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
            return Ok(Running { process, _dir: dir });
        }
        assert!(!ended, "{} {all:?} ended at once:\n{}", program(), tail(&said));
        assert!(
            started.elapsed() < HANG_GUARD,
            "{} {all:?} does not answer:\n{}",
            program(),
            tail(&said)
        );
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

fn program() -> &'static str {
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

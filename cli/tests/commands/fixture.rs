//! Servers with keys, and the program while it runs.

use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStderr, ChildStdout, Command, Stdio},
    time::Instant,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    program::{HANG_GUARD, Outcome, PATIENT, run},
    support::RedisServer,
};

/// Runs the program over these servers, to its end.
#[track_caller]
pub(crate) fn redlock(servers: &[RedisServer], args: &[&str]) -> Outcome {
    run(&nodes(servers), &[&PATIENT, args].concat())
}

/// Starts servers that vote, and know the set that they belong to.
pub(crate) fn enrolled(count: usize) -> Vec<RedisServer> {
    let servers = RedisServer::start_n(count);
    redlock(&servers, &["status"]).is(0, &[]);
    servers
}

pub(crate) fn nodes(servers: &[RedisServer]) -> String {
    servers.iter().map(RedisServer::url).collect::<Vec<_>>().join(",")
}

/// Stores a key as a holder does, on each of the servers.
pub(crate) fn store(servers: &[RedisServer], name: &str, owner: &str, token: u64) {
    let value = format!("{} {token} {SINCE} {owner}", nonce(owner));
    put(servers, &format!("redlock:lock:{name}"), &value);
}

/// Stores a record of work that is done (`d`) or was begun (`u`).
pub(crate) fn store_record(servers: &[RedisServer], key: &str, state: char, owner: &str) {
    let value = format!("{state} {} 7 {SINCE} {owner}\n", nonce(owner));
    put(servers, &format!("redlock:done:once:{key}"), &value);
}

/// Each owner has one lease.
fn nonce(owner: &str) -> String {
    let number = owner
        .bytes()
        .fold(1_u128, |number, byte| number.wrapping_mul(31).wrapping_add(u128::from(byte)));
    format!("{number:032x}")
}

/// A time in 2020, in milliseconds since the epoch.
const SINCE: &str = "1600000000000";

fn put(servers: &[RedisServer], key: &str, value: &str) {
    for server in servers {
        server.cli(&["SET", key, value, "PX", "60000"]);
    }
}

/// The program, with its standard output line by line.
pub(crate) struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    pub(crate) fn start(servers: &[RedisServer], args: &[&str]) -> Self {
        Self::spawn(&mut Self::command(servers, args))
    }

    /// Returns the program, with a standard error that is not read.
    pub(crate) fn command(servers: &[RedisServer], args: &[&str]) -> Command {
        // The process that runs the tests may ignore signals.
        let mut command = Command::new("env");
        command.args(["--default-signal", env!("CARGO_BIN_EXE_redlock")]);
        command.args(PATIENT).args(args).env("REDLOCK_NODES", nodes(servers));
        command.env_remove("REDLOCK_SERVE_PASSWORD");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    }

    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command.spawn().expect("redlock starts");
        let lines = BufReader::new(child.stdout.take().expect("it is piped"));
        Self { child, lines }
    }

    /// Returns its standard error, where the command pipes it.
    pub(crate) fn errors(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Returns the next line. Blocks until there is one.
    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line).expect("UTF-8");
        assert!(read > 0, "the output has ended");
        line
    }

    /// Reads up to a line that contains the words. Returns what was read.
    #[track_caller]
    pub(crate) fn until(&mut self, words: &str) -> String {
        let mut text = String::new();
        loop {
            let line = self.line();
            text.push_str(&line);
            if line.contains(words) {
                return text;
            }
        }
    }

    pub(crate) fn send(&self, signal: Signal) {
        send(&self.child, signal);
    }

    /// Sends a signal, and returns the exit code; the signal itself has none.
    pub(crate) fn end(mut self, signal: Signal) -> Option<i32> {
        self.send(signal);
        wait(&mut self.child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().try_into().expect("a process id")).expect("not 0");
    kill_process(pid, signal).expect("it runs");
}

/// Waits for its end.
pub(crate) fn wait(child: &mut Child) -> Option<i32> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("it is our child") {
            return status.code();
        }
        assert!(begun.elapsed() < HANG_GUARD, "it hangs");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

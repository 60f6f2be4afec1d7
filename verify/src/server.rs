//! A Redis server, and the operations on it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::Signal;

use crate::ask::{ask, command};
use crate::support::port::{self, Port};
use crate::support::process::Process;
use crate::support::program::program;
use crate::support::resp::Resp;
use crate::support::server_clock::Clock;
use crate::support::temp_dir::TempDir;

/// Timeout for a start, and for a command that must take effect.
pub const SERVER_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout for a query about the state of a server.
const QUERY_TIMEOUT: Duration = Duration::from_millis(300);

/// Timeout for a server to show a new time: Valkey 9 reads the clock at most once in a millisecond.
const CLOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of ports that are tried at the first start.
const MAX_PORTS: u32 = 10;

/// Interval between two checks of a server.
const CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// How a server is started.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    /// Whether its clock can be set.
    pub clock: bool,
    /// The words before the program.
    pub before: &'static [&'static str],
    /// Further arguments.
    pub args: Vec<String>,
    /// Further arguments of a server that clients reach by TLS.
    pub tls_args: Vec<String>,
}

/// The process is declared first, as it must end before its directory is removed.
#[derive(Debug)]
pub struct Server {
    process: Option<Process>,
    port: Port,
    tls_port: Option<Port>,
    dir: TempDir,
    clock: Option<Clock>,
    options: ServerOptions,
    launches: u32,
}

impl Server {
    /// Starts a blank server, and waits until it answers.
    pub fn start(options: ServerOptions) -> Result<Self, String> {
        let mut server = Self::stopped(options);
        let mut tries = 1;
        while let Err(problem) = server.launch() {
            if !is_port_in_use(&problem) || tries == MAX_PORTS {
                return Err(problem);
            }
            tries += 1;
            server.draw_ports();
        }
        if let Some(clock) = &server.clock {
            server.check_clock(clock)?;
        }
        Ok(server)
    }

    /// Starts a Sentinel with this configuration, apart from its port and directory.
    pub fn start_sentinel(config: &str) -> Result<Self, String> {
        for _ in 0..MAX_PORTS {
            let mut server = Self::stopped(ServerOptions::default());
            let (dir, port) = (server.dir.path(), server.port.number());
            let file = dir.join("sentinel.conf");
            let place = format!("port {port}\nbind 127.0.0.1\ndir {}\n", dir.display());
            fs::write(&file, place + config)
                .map_err(|error| format!("{}: {error}", file.display()))?;
            let command = [program()?.to_owned(), file.display().to_string(), "--sentinel".into()];
            let mut process = Process::spawn(&command, &dir.join("log"));
            let started = Instant::now();
            while !process.has_ended() && started.elapsed() < SERVER_TIMEOUT {
                if server.query(&["PING"]).is_ok() {
                    server.process = Some(process);
                    return Ok(server);
                }
                thread::sleep(CHECK_INTERVAL);
            }
        }
        Err("no Sentinel starts".into())
    }

    fn stopped(options: ServerOptions) -> Self {
        let dir = TempDir::new();
        let clock = options.clock.then(|| Clock::new(dir.path().join("clock")));
        let tls_port = (!options.tls_args.is_empty()).then(port::unused);
        let port = port::unused();
        Self { process: None, port, tls_port, dir, clock, options, launches: 0 }
    }

    fn draw_ports(&mut self) {
        self.port = port::unused();
        self.tls_port = self.tls_port.is_some().then(port::unused);
    }

    /// The address without TLS.
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// The address for clients, with TLS if the server has it.
    pub fn client_addr(&self) -> SocketAddr {
        self.tls_port.as_ref().unwrap_or(&self.port).addr()
    }

    /// Sends `SIGKILL`.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts a server that was killed, with the files that it had.
    pub fn restart(&mut self) -> Result<(), String> {
        let started = Instant::now();
        while let Err(problem) = self.launch() {
            if !is_port_in_use(&problem) || started.elapsed() > SERVER_TIMEOUT {
                return Err(problem);
            }
        }
        Ok(())
    }

    /// Removes the files of a server that was killed.
    pub fn wipe(&self) -> Result<(), String> {
        let data = self.data();
        fs::remove_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) -> Result<(), String> {
        self.process()?.signal(signal);
        Ok(())
    }

    /// The process; an error if it was killed.
    pub fn process(&self) -> Result<&Process, String> {
        self.process.as_ref().ok_or_else(|| format!("the server at {} was killed", self.addr()))
    }

    /// Sets its clock `ahead` seconds ahead of the correct time.
    pub fn set_clock(&self, ahead: f64) {
        if let Some(clock) = &self.clock {
            clock.set(ahead);
        }
    }

    /// Returns the reply to a command that must take effect; an error reply is an error.
    pub fn command(&self, args: &[&str]) -> Result<Resp, String> {
        let problem = |error| format!("{}: {error}", self.addr());
        command(self.addr(), SERVER_TIMEOUT, args).map_err(problem)
    }

    /// Returns the reply to a query about its state; an error reply is an error.
    pub fn query(&self, args: &[&str]) -> Result<Resp, String> {
        let problem = |error| format!("{}: {error}", self.addr());
        command(self.addr(), QUERY_TIMEOUT, args).map_err(problem)
    }

    /// A field of a section of `INFO`; `None` without an answer.
    pub fn info(&self, section: &str, field: &str) -> Option<String> {
        let text = self.query(&["INFO", section]).ok()?.text();
        let value = |line: &str| line.strip_prefix(field)?.strip_prefix(':').map(str::to_owned);
        text.lines().find_map(value)
    }

    /// Waits until the reply to a command is the wanted one.
    pub fn await_reply(
        &self,
        is_wanted: impl Fn(&Resp) -> bool,
        args: &[&str],
    ) -> Result<(), String> {
        let started = Instant::now();
        loop {
            let reply = self.command(args);
            if reply.as_ref().is_ok_and(&is_wanted) {
                return Ok(());
            }
            if started.elapsed() > SERVER_TIMEOUT {
                return Err(format!("{}: {} was answered {reply:?}", self.addr(), args.join(" ")));
            }
            thread::sleep(CHECK_INTERVAL);
        }
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Starts a process with the data in the directory, and waits until it answers.
    fn launch(&mut self) -> Result<(), String> {
        self.launches += 1;
        let log = self.dir.path().join(format!("log-{}", self.launches));
        let data = self.data();
        fs::create_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))?;
        let mut process = Process::spawn(&self.command_line()?, &log);
        let started = Instant::now();
        loop {
            let has_ended = process.has_ended();
            let output = fs::read(&log).unwrap_or_default();
            let output = String::from_utf8_lossy(&output);
            // An answer alone could come from another server that took the port.
            let is_up = output.contains("Ready to accept connections") && self.answers();
            let is_given_up = has_ended || started.elapsed() > SERVER_TIMEOUT;
            if let Some(clock) = self.clock.as_ref().filter(|_| is_up || is_given_up) {
                clock.settle(process.pid());
            }
            if is_up {
                self.process = Some(process);
                return Ok(());
            }
            if is_given_up {
                let what = if has_ended { "ended at once" } else { "does not answer" };
                let lines: Vec<&str> = output.lines().collect();
                let last = lines[lines.len().saturating_sub(20)..].join("\n");
                return Err(format!("the server at {} {what}:\n{last}", self.addr()));
            }
            thread::sleep(CHECK_INTERVAL);
        }
    }

    fn command_line(&self) -> Result<Vec<String>, String> {
        let mut words: Vec<String> = self.options.before.iter().copied().map(Into::into).collect();
        words.extend(self.clock.as_ref().map_or_else(Vec::new, Clock::prefix));
        let (port, dir) = (self.port.number().to_string(), self.data().display().to_string());
        let own = [program()?, "--port", &port, "--bind", "127.0.0.1", "--dir", &dir];
        // Replicas need not wait for further ones.
        let fixed = "--daemonize no --appendonly no --repl-diskless-sync yes \
             --repl-diskless-sync-delay 0";
        words.extend(own.into_iter().chain(["--save", ""]).map(str::to_owned));
        words.extend(fixed.split(' ').map(str::to_owned));
        words.extend_from_slice(&self.options.args);
        if let Some(port) = &self.tls_port {
            words.extend(["--tls-port".into(), port.number().to_string()]);
            words.extend_from_slice(&self.options.tls_args);
        }
        Ok(words)
    }

    fn answers(&self) -> bool {
        let answer = ask(self.addr(), SERVER_TIMEOUT, &["PING"]);
        answer
            .is_ok_and(|reply| !matches!(reply, Resp::Error(error) if error.starts_with("LOADING")))
    }

    /// Moves the clock and compares the server's time, as libfaketime may be installed without
    /// having an effect.
    fn check_clock(&self, clock: &Clock) -> Result<(), String> {
        let before = self.time()?;
        clock.set(1_000.0);
        let set = Instant::now();
        let result = loop {
            let after = self.time()?;
            if (990..1_100).contains(&(after - before)) {
                break Ok(());
            }
            if set.elapsed() > CLOCK_TIMEOUT {
                break Err(format!(
                    "the clock of a server can't be set here, though libfaketime is there: it went \
                     from {before} to {after}"
                ));
            }
            thread::sleep(CHECK_INTERVAL);
        };
        clock.set(0.0);
        result
    }

    fn time(&self) -> Result<i64, String> {
        let time = self.command(&["TIME"])?.items().swap_remove(0).text();
        time.parse().map_err(|_| format!("no time: {time}"))
    }
}

fn is_port_in_use(problem: &str) -> bool {
    problem.contains("Address already in use")
}

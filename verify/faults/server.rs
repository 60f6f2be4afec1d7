//! A server of a cell.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::Signal;
use tower_redlock_verify::ask::command;
use tower_redlock_verify::clocks;
use tower_redlock_verify::launch::{PATIENCE, launch};
use tower_redlock_verify::support::port::{self, Port};
use tower_redlock_verify::support::process::Process;
use tower_redlock_verify::support::resp::Resp;
use tower_redlock_verify::support::server_clock::Clock;
use tower_redlock_verify::support::temp_dir::TempDir;

use crate::fault::Needs;

/// The user that clients log in as.
pub(crate) const USER: &str = "locks";
pub(crate) const PASSWORD: &str = "first";

/// Makes a write beyond a limit on the size of files fail instead of ending the server.
const WITHOUT_SIGNAL: [&str; 4] = ["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"];

/// The process is declared first, as it must end before its directory is removed.
#[derive(Debug)]
pub(crate) struct Server {
    process: Option<Process>,
    port: Port,
    tls_port: Option<Port>,
    dir: TempDir,
    clock: Option<Clock>,
    needs: Needs,
    launches: u32,
}

impl Server {
    pub(crate) fn start(needs: Needs) -> Result<Self, String> {
        let dir = TempDir::new();
        let clock = needs.clock.then(|| Clock::new(dir.path().join("clock")));
        let mut server = Self {
            process: None,
            port: port::unused(),
            tls_port: needs.tls.then(port::unused),
            dir,
            clock,
            needs,
            launches: 0,
        };
        let mut tries = 0;
        while let Err(problem) = server.launch() {
            tries += 1;
            if !problem.contains("Address already in use") || tries == 10 {
                return Err(problem);
            }
            server.port = port::unused();
            server.tls_port = needs.tls.then(port::unused);
        }
        if let Some(clock) = &server.clock {
            clocks::check(server.addr(), clock)?;
        }
        Ok(server)
    }

    /// The address for the driver.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// The address for clients.
    pub(crate) fn client_addr(&self) -> SocketAddr {
        self.tls_port.as_ref().unwrap_or(&self.port).addr()
    }

    /// Sends `SIGKILL`.
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    /// Starts a server that was killed.
    pub(crate) fn restart(&mut self) -> Result<(), String> {
        let started = Instant::now();
        while let Err(problem) = self.launch() {
            if !problem.contains("Address already in use") || started.elapsed() > PATIENCE {
                return Err(problem);
            }
        }
        Ok(())
    }

    fn launch(&mut self) -> Result<(), String> {
        self.launches += 1;
        let log = self.dir.path().join(format!("log-{}", self.launches));
        let data = self.dir.path().join("data");
        fs::create_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))?;
        let before: &[&str] = if self.needs.aof { &WITHOUT_SIGNAL } else { &[] };
        let (clock, options) = (self.clock.as_ref(), self.options());
        self.process = Some(launch(self.addr(), &data, &log, clock, before, &options)?);
        Ok(())
    }

    fn options(&self) -> Vec<String> {
        let password = format!(">{PASSWORD}");
        let mut options = vec!["--user", USER, "on", &password, "~*", "&*", "+@all"];
        if self.needs.aof {
            options.extend(["--appendonly", "yes", "--appendfsync", "everysec"]);
        }
        let mut options: Vec<String> = options.into_iter().map(str::to_owned).collect();
        if let Some(port) = &self.tls_port {
            options.extend(["--tls-port".into(), port.number().to_string()]);
            options.extend(["--tls-cert-file".into(), certificate("server.pem")]);
            options.extend(["--tls-key-file".into(), certificate("server.key")]);
            options.extend(["--tls-ca-cert-file".into(), certificate("ca.pem")]);
            options.extend(["--tls-auth-clients".into(), "no".into()]);
        }
        options
    }

    /// Removes the data that a server would load at its start.
    pub(crate) fn wipe(&self) -> Result<(), String> {
        let data = self.dir.path().join("data");
        fs::remove_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))
    }

    pub(crate) fn command(&self, args: &[&str]) -> Result<Resp, String> {
        command(self.addr(), PATIENCE, args).map_err(|error| format!("{}: {error}", self.addr()))
    }

    /// Sends the command without waiting longer than `patience` for its reply.
    pub(crate) fn send(&self, patience: Duration, args: &[&str]) {
        let _ = command(self.addr(), patience, args);
    }

    pub(crate) fn await_reply(
        &self,
        wanted: impl Fn(&Resp) -> bool,
        args: &[&str],
    ) -> Result<(), String> {
        let started = Instant::now();
        loop {
            let reply = self.command(args);
            if reply.as_ref().is_ok_and(&wanted) {
                return Ok(());
            }
            if started.elapsed() > PATIENCE {
                return Err(format!("{}: {} was answered {reply:?}", self.addr(), args.join(" ")));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<(), String> {
        self.process()?.signal(signal);
        Ok(())
    }

    /// Sets a soft limit of the process, such as `nofile=3`. The hard limit is not changed, so that
    /// an unprivileged user can raise the soft one again.
    pub(crate) fn limit(&self, limit: &str) -> Result<(), String> {
        let pid = self.process()?.pid().as_raw_pid().to_string();
        let set = Command::new("prlimit").args(["--pid", &pid, &format!("--{limit}:")]).output();
        match set {
            Ok(done) if done.status.success() => Ok(()),
            Ok(done) => Err(format!("prlimit: {}", String::from_utf8_lossy(&done.stderr))),
            Err(error) => Err(format!("prlimit of util-linux: {error}")),
        }
    }

    /// Sets its clock `ahead` seconds ahead of the correct time.
    pub(crate) fn set_clock(&self, ahead: f64) {
        if let Some(clock) = &self.clock {
            clock.set(ahead);
        }
    }

    fn process(&self) -> Result<&Process, String> {
        self.process.as_ref().ok_or_else(|| format!("the server at {} was killed", self.addr()))
    }
}

/// Returns the path of a file in `tls/`.
pub(crate) fn certificate(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("faults/tls").join(file);
    path.display().to_string()
}

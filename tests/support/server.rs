//! A real server process.

use std::net::SocketAddr;
use std::thread;

use rustix::process::Signal;

use super::acl;
use super::home::Home;
use super::launch::{PortTaken, launch};
use super::port::{self, Port};
use super::process::Process;
use super::server_clock::Clock;

/// A `redis-server` (or `valkey-server`) on 127.0.0.1, without persistence unless told otherwise.
///
/// Every method blocks, and returns when it has taken effect. Dropping the server kills it; if the
/// test process itself is killed, the server dies too.
#[derive(Debug)]
pub struct RedisServer {
    port: Port,
    pub(super) args: Vec<String>,
    pub(super) clock: Option<Clock>,
    /// Declared before the home, as the process must end before its directory is removed.
    running: Option<Process>,
    pub(super) home: Home,
}

impl RedisServer {
    /// Starts a server and waits until it answers.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// The same with further command-line arguments, such as `["--requirepass", "s3cret"]`.
    pub fn with(args: &[&str]) -> Self {
        Self::start_at(Home::new(), None, args)
    }

    pub(super) fn start_at(home: Home, clock: Option<Clock>, args: &[&str]) -> Self {
        #[cfg(test)]
        super::output::print_events();
        let mut args: Vec<String> = args.iter().map(ToString::to_string).collect();
        args.extend(acl::args());
        let mut server = Self { port: port::unused(), args, clock, running: None, home };
        while server.launch().is_err() {
            server.port = port::unused();
        }
        server
    }

    pub(super) fn launch(&mut self) -> Result<(), PortTaken> {
        let process = launch(self.addr(), &self.args, &self.home, self.clock.as_ref())?;
        self.running = Some(process);
        Ok(())
    }

    /// All that the server has logged.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.home.log()).unwrap_or_default()).into_owned()
    }

    /// `n` servers, started side by side.
    pub fn start_n(n: usize) -> Vec<Self> {
        thread::scope(|scope| {
            let starting: Vec<_> = (0..n).map(|_| scope.spawn(Self::start)).collect();
            starting.into_iter().map(|server| server.join().expect("the server starts")).collect()
        })
    }

    /// Returns the URL by which clients log in as the README describes, with its permissions and no
    /// others. The URL of a server with a password has no credentials.
    pub fn url(&self) -> String {
        format!("{}{}", self.login(), self.addr())
    }

    /// The URL of the default user, which may do everything.
    pub fn plain_url(&self) -> String {
        format!("redis://{}", self.addr())
    }

    /// The same server by another host name.
    pub fn url_by_name(&self) -> String {
        format!("{}localhost:{}", self.login(), self.port())
    }

    fn login(&self) -> String {
        if self.password().is_some() { "redis://".into() } else { acl::login() }
    }

    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The server's own process id.
    pub fn pid(&self) -> u32 {
        self.process().pid().as_raw_pid().unsigned_abs()
    }

    /// Stops the process (SIGSTOP): connections stay open and the system accepts new ones, but
    /// nothing is answered until [`thaw`](Self::thaw). Keys continue to expire.
    pub fn freeze(&self) {
        self.process().signal(Signal::STOP);
    }

    /// Continues a frozen server, which then processes the commands that it was sent.
    pub fn thaw(&self) {
        self.process().signal(Signal::CONT);
    }

    /// Kills the process (SIGKILL), frozen or not: its keys are lost and its port refuses
    /// connections.
    pub fn kill(&mut self) {
        self.running = None;
    }

    pub fn is_running(&mut self) -> bool {
        self.running.as_mut().is_some_and(|running| !running.has_ended())
    }

    pub(super) fn password(&self) -> Option<&str> {
        let option = self.args.iter().position(|arg| arg == "--requirepass")?;
        self.args.get(option + 1).map(String::as_str)
    }

    fn process(&self) -> &Process {
        self.running.as_ref().expect("the server was killed")
    }
}

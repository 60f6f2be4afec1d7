//! A real server process.

use std::net::SocketAddr;
use std::thread;
use std::time::Instant;

use rustix::process::Signal;

use super::launch::{PortTaken, Running, launch};
use super::port::{self, Port};
use super::process::Process;
use super::wait::HANG_GUARD;

/// A `redis-server` (or `valkey-server`) on 127.0.0.1, without persistence.
///
/// Every method blocks, and returns when its effect is there. Dropping the server kills it; if the
/// test process itself is killed, the server dies too.
#[derive(Debug)]
pub struct RedisServer {
    port: Port,
    args: Vec<String>,
    running: Option<Running>,
}

impl RedisServer {
    /// Starts a server and waits until it answers.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// The same with further command-line arguments, such as `["--requirepass", "secret"]`.
    pub fn with(args: &[&str]) -> Self {
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        loop {
            let port = port::unused();
            if let Ok(running) = launch(port.addr(), &args) {
                return Self { port, args, running: Some(running) };
            }
        }
    }

    /// `n` servers, started side by side.
    pub fn start_n(n: usize) -> Vec<Self> {
        thread::scope(|scope| {
            let starting: Vec<_> = (0..n).map(|_| scope.spawn(Self::start)).collect();
            starting.into_iter().map(|server| server.join().expect("the server starts")).collect()
        })
    }

    /// The URL without credentials.
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr())
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

    /// Stops the process (SIGSTOP): connections stay open and new ones are accepted by the system,
    /// but nothing is answered until [`thaw`](Self::thaw). Keys go on ageing.
    pub fn freeze(&self) {
        self.process().signal(Signal::STOP);
    }

    /// Lets a frozen server go on; it then works off what it was sent.
    pub fn thaw(&self) {
        self.process().signal(Signal::CONT);
    }

    /// Kills the process (SIGKILL), frozen or not: its keys are lost and its port refuses
    /// connections.
    pub fn kill(&mut self) {
        self.running = None;
    }

    /// Starts a blank server on the same port and with the same arguments, after a kill where it is
    /// still running.
    pub fn restart(&mut self) {
        self.kill();
        let started = Instant::now();
        self.running = loop {
            match launch(self.addr(), &self.args) {
                Ok(running) => break Some(running),
                Err(PortTaken) => {
                    assert!(started.elapsed() < HANG_GUARD, "{} is taken", self.url());
                }
            }
        };
    }

    pub fn is_running(&mut self) -> bool {
        self.running.as_mut().is_some_and(|running| !running.process.has_ended())
    }

    pub(super) fn password(&self) -> Option<&str> {
        let option = self.args.iter().position(|arg| arg == "--requirepass")?;
        self.args.get(option + 1).map(String::as_str)
    }

    fn process(&self) -> &Process {
        &self.running.as_ref().expect("the server was killed").process
    }
}

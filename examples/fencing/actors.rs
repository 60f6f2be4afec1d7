//! Workers that are started, frozen and thawed: processes over real servers, threads over nodes
//! inside this process.

use std::{
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::Duration,
};

use tower_redlock::Redlock;

use crate::{
    Failure,
    args::Part,
    nodes::Nodes,
    worker::{self, Said},
};

/// A worker that says nothing for so long hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// All that a worker needs.
pub(crate) struct Company {
    pub(crate) storage: SocketAddr,
    pub(crate) nodes: Nodes,
}

pub(crate) struct Actor {
    pub(crate) name: String,
    says: Receiver<String>,
    body: Body,
}

enum Body {
    Process { child: Child, input: ChildStdin },
    Thread { input: Sender<()> },
}

impl Company {
    pub(crate) fn start(&self, name: &str) -> Result<Actor, Failure> {
        let part = Part { name: name.to_owned(), storage: self.storage };
        let (sender, says) = channel();
        let body = match &self.nodes {
            Nodes::Servers(_) => start_process(&part, sender)?,
            Nodes::Embedded(_) => {
                start_thread(part, self.nodes.builder().owner(name).build()?, sender)?
            }
        };
        Ok(Actor { name: name.to_owned(), says, body })
    }

    /// How a holder is made late, in words.
    pub(crate) const fn manner(&self) -> &'static str {
        match self.nodes {
            Nodes::Servers(_) if cfg!(unix) => "its process is stopped with SIGSTOP",
            _ => "its thread blocks inside a poll",
        }
    }
}

/// This program once more.
fn start_process(part: &Part, says: Sender<String>) -> Result<Body, Failure> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--worker", &part.name, &part.storage.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let input = child.stdin.take().ok_or("a worker without input")?;
    let output = child.stdout.take().ok_or("a worker without output")?;
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let _ = says.send(line);
        }
    });
    Ok(Body::Process { child, input })
}

fn start_thread(part: Part, redlock: Redlock, says: Sender<String>) -> Result<Body, Failure> {
    let (input, hears) = channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::spawn(move || {
        let say = |line| drop(says.send(line));
        // Without renewal: renewals come from a thread of their own, which does not block here.
        let work = worker::work(&redlock, &part, false, say, || hears.recv().is_ok());
        if let Err(error) = runtime.block_on(work) {
            say(error.to_string());
        }
        runtime.block_on(redlock.shutdown());
    });
    Ok(Body::Thread { input })
}

impl Actor {
    /// What it says next.
    pub(crate) fn listen(&self) -> Result<Said, Failure> {
        let line = self.says.recv_timeout(PATIENCE);
        line.map_err(|_| format!("{} says nothing more", self.name))?.parse()
    }

    /// Tells it to go on.
    pub(crate) fn go(&mut self) -> Result<(), Failure> {
        match &mut self.body {
            Body::Process { input, .. } => Ok(input.write_all(b"go\n")?),
            Body::Thread { input } => Ok(input.send(())?),
        }
    }

    /// Stops its process where there is one: none of its threads runs, renewals included. A thread
    /// of ours blocks by itself until it is told to go on.
    pub(crate) fn freeze(&self) -> Result<(), Failure> {
        self.signal(true)
    }

    pub(crate) fn thaw(&self) -> Result<(), Failure> {
        self.signal(false)
    }

    #[cfg(unix)]
    fn signal(&self, stops: bool) -> Result<(), Failure> {
        use rustix::process::{Pid, Signal, kill_process};
        if let Body::Process { child, .. } = &self.body {
            let signal = if stops { Signal::STOP } else { Signal::CONT };
            kill_process(Pid::from_child(child), signal)?;
        }
        Ok(())
    }

    #[cfg(not(unix))]
    fn signal(&self, _: bool) -> Result<(), Failure> {
        Ok(())
    }

    /// Waits until its process has ended: its lock is given back.
    pub(crate) fn leave(mut self) -> Result<(), Failure> {
        match &mut self.body {
            Body::Process { child, .. } => {
                let status = child.wait()?;
                if status.success() { Ok(()) } else { Err(format!("a worker: {status}").into()) }
            }
            Body::Thread { .. } => Ok(()),
        }
    }
}

/// Where the story ended early: a process that is stopped would stay for ever.
impl Drop for Actor {
    fn drop(&mut self) {
        if let Body::Process { child, .. } = &mut self.body {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

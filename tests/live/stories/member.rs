//! Members of a story: processes that are started, killed, frozen and stopped.
//!
//! A process is this test binary, run again for the one test [`member`].

use std::{
    env,
    fmt::Display,
    io::{self, Write},
    process::Stdio,
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, Command},
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::timeout,
};
use tower_redlock::RedlockBuilder;

use crate::stories::{
    Failure, fencing,
    nodes::{Nodes, over},
    webhooks,
};

const VARIABLE: &str = "TOWER_REDLOCK_MEMBER";
/// Distinguishes a member's lines from the test harness's lines.
const PREFIX: &str = "> ";
/// Limit for the next line, and for the end, of a member.
const HANG_GUARD: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    Receiver,
    Worker,
}

/// The role of a member, its name and its argument.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) role: Role,
    pub(crate) name: String,
    /// Its meaning depends on the role; without spaces.
    pub(crate) arg: String,
}

impl Part {
    pub(crate) fn new(role: Role, name: &str, arg: &impl ToString) -> Self {
        Self { role, name: name.to_owned(), arg: arg.to_string() }
    }

    async fn run(self, builder: RedlockBuilder, input: Input) -> Result<(), Failure> {
        let builder = builder.owner(&*self.name);
        match self.role {
            Role::Receiver => webhooks::receive(builder, self, input).await,
            Role::Worker => fencing::work(builder, self, input).await,
        }
    }
}

/// Prints a line of a member.
pub(crate) fn print(line: &impl Display) {
    // At the end of the test process the reader is gone.
    let _ = writeln!(io::stdout(), "{PREFIX}{line}");
}

/// The input of a member.
#[derive(Clone)]
pub(crate) struct Input(Arc<Mutex<mpsc::Receiver<()>>>);

impl Input {
    /// Blocks the thread until the next input; false at the end of the input.
    pub(crate) fn next(&self) -> bool {
        self.0.lock().unwrap().recv().is_ok()
    }

    /// Waits for the end of the input, which asks the member to stop.
    pub(crate) async fn stopped(&self) {
        let input = self.clone();
        let end = tokio::task::spawn_blocking(move || while input.next() {});
        end.await.expect("it does not panic");
    }
}

/// The process of a member. In an ordinary run of all tests there is no part for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn member() {
    let Ok(text) = env::var(VARIABLE) else { return };

    let [role, name, arg, urls] = text.split(' ').collect::<Vec<_>>()[..] else { panic!("{text}") };

    let roles = [Role::Receiver, Role::Worker];
    let role = roles.into_iter().find(|known| format!("{known:?}") == role).expect("a role");
    let (sender, inputs) = mpsc::channel();
    thread::spawn(move || {
        let mut lines = io::stdin().lines();
        while let Some(Ok(_)) = lines.next() {
            let _ = sender.send(());
        }
    });
    let input = Input(Arc::new(Mutex::new(inputs)));
    let builder = over(urls.split(',').map(ToOwned::to_owned));
    Part::new(role, name, &arg).run(builder, input).await.unwrap();
}

/// A running member. Dropping it kills it.
pub(crate) struct Member {
    pub(crate) name: String,
    child: Child,
    input: ChildStdin,
}

impl Member {
    /// Starts a member, whose lines are received from the channel.
    pub(crate) fn start(nodes: &Nodes, part: Part) -> Result<(Self, Lines), Failure> {
        let Part { role, name, arg } = part;
        let mut child = Command::new(env::current_exe()?)
            .args(["stories::member::member", "--exact", "--nocapture"])
            .env(VARIABLE, format!("{role:?} {name} {arg} {}", nodes.urls().join(",")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = child.stdin.take().ok_or("no input")?;
        let output = child.stdout.take().ok_or("no output")?;
        let (sender, receiver) = unbounded_channel();
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some(line) = line.strip_prefix(PREFIX) {
                    // At the end of the test the receiver is gone.
                    let _ = sender.send(line.to_owned());
                }
            }
        });
        Ok((Self { name, child, input }, Lines(receiver)))
    }

    /// Sends it one input.
    pub(crate) async fn send_input(&mut self) -> Result<(), Failure> {
        Ok(self.input.write_all(b"go\n").await?)
    }

    /// Sends SIGSTOP or SIGCONT.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Failure> {
        let id = self.child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        Ok(kill_process(id.ok_or("the process has ended")?, signal)?)
    }

    /// Sends SIGKILL.
    pub(crate) async fn kill(mut self) -> Result<(), Failure> {
        Ok(self.child.kill().await?)
    }

    /// Ends its input, and waits for its end.
    pub(crate) async fn stop(self) -> Result<(), Failure> {
        let Self { name, mut child, input } = self;
        drop(input);
        let ended = timeout(HANG_GUARD, child.wait()).await;
        let status = ended.map_err(|_| format!("{name} does not end"))??;
        if status.success() { Ok(()) } else { Err(status.to_string().into()) }
    }
}

/// The lines of one member.
pub(crate) struct Lines(UnboundedReceiver<String>);

impl Lines {
    pub(crate) async fn next(&mut self) -> Result<String, Failure> {
        let next = timeout(HANG_GUARD, self.0.recv()).await;
        Ok(next.map_err(|_| "the member hangs")?.ok_or("the member has ended")?)
    }
}

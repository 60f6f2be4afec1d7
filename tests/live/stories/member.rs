//! Members of a story that are started, killed, frozen and stopped: processes over real servers,
//! runtimes of their own over embedded nodes.
//!
//! A process is this test binary, run again for the one test [`member`].

use std::{
    env,
    io::Write,
    process::Stdio,
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, Command},
    runtime::Runtime,
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    task::JoinHandle,
    time::timeout,
};
use tower_redlock::RedlockBuilder;

use crate::stories::{
    Failure, fencing, leader,
    nodes::{Link, Nodes, over},
    scheduler, webhooks,
};

const VARIABLE: &str = "TOWER_REDLOCK_MEMBER";
/// Distinguishes a member's lines from the test harness's lines.
const PREFIX: &str = "> ";
/// Limit for the next line, and for the end, of a member.
pub(crate) const HANG_GUARD: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    Candidate,
    Receiver,
    Replica,
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

    async fn run(self, builder: RedlockBuilder, io: Io) -> Result<(), Failure> {
        let builder = builder.owner(&*self.name);
        match self.role {
            Role::Candidate => leader::stand(builder, io).await,
            Role::Receiver => webhooks::receive(builder, self, io).await,
            Role::Replica => scheduler::replicate(builder, self, io).await,
            Role::Worker => fencing::work(builder, self, io).await,
        }
    }
}

/// The input and output of a member.
#[derive(Clone)]
pub(crate) struct Io {
    print: Arc<dyn Fn(String) + Send + Sync>,
    input: Arc<Mutex<mpsc::Receiver<()>>>,
}

impl Io {
    pub(crate) fn print(&self, line: &(impl ToString + ?Sized)) {
        (self.print)(line.to_string());
    }

    /// Blocks the thread until the next input; false at the end of the input.
    pub(crate) fn next_input(&self) -> bool {
        self.input.lock().unwrap().recv().is_ok()
    }

    /// Waits for the end of the input, which asks the member to stop.
    pub(crate) async fn stopped(&self) {
        let io = self.clone();
        let end = tokio::task::spawn_blocking(move || while io.next_input() {});
        end.await.expect("it does not panic");
    }
}

/// The process of a member. In an ordinary run of all tests there is no part for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn member() {
    let Ok(text) = env::var(VARIABLE) else { return };

    let [role, name, arg, urls] = text.split(' ').collect::<Vec<_>>()[..] else { panic!("{text}") };

    let roles = [Role::Candidate, Role::Receiver, Role::Replica, Role::Worker];
    let role = roles.into_iter().find(|known| format!("{known:?}") == role).expect("a role");
    let (sender, input) = mpsc::channel();
    thread::spawn(move || {
        let mut lines = std::io::stdin().lines();
        while let Some(Ok(_)) = lines.next() {
            let _ = sender.send(());
        }
    });
    let print = |line| {
        // At the end of the test process the reader is gone.
        let _ = writeln!(std::io::stdout(), "{PREFIX}{line}");
    };
    let io = Io { print: Arc::new(print), input: Arc::new(Mutex::new(input)) };
    let builder = over(urls.split(',').map(ToOwned::to_owned));
    Part::new(role, name, &arg).run(builder, io).await.unwrap();
}

/// A running member. Dropping it kills it.
pub(crate) struct Member {
    pub(crate) name: String,
    body: Option<Body>,
}

enum Body {
    Process { child: Child, input: ChildStdin },
    Runtime { runtime: Background, link: Link, input: mpsc::Sender<()>, ended: Ended },
}

type Ended = JoinHandle<Result<(), Failure>>;

impl Member {
    /// Starts a member; `on_line` is called with each line that it prints.
    pub(crate) fn start(
        nodes: &Nodes,
        part: Part,
        on_line: impl Fn(String) + Send + Sync + 'static,
    ) -> Result<Self, Failure> {
        let name = part.name.clone();
        let body = match nodes {
            Nodes::Servers(_) => start_process(&part, &nodes.urls(), on_line)?,
            Nodes::Embedded(nodes) => {
                let (input, inputs) = mpsc::channel();
                let io = Io { print: Arc::new(on_line), input: Arc::new(Mutex::new(inputs)) };
                let link = Link::default();
                let builder = link.builder(nodes);
                let runtime = tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(1)
                    .enable_all()
                    .build()?;
                let ended = runtime.spawn(part.run(builder, io));
                Body::Runtime { runtime: Background(Some(runtime)), link, input, ended }
            }
        };
        Ok(Self { name, body: Some(body) })
    }

    /// The same; the lines are received from the channel.
    pub(crate) fn start_with_lines(nodes: &Nodes, part: Part) -> Result<(Self, Lines), Failure> {
        let (sender, receiver) = unbounded_channel();
        let on_line = move |line| drop(sender.send(line));
        Ok((Self::start(nodes, part, on_line)?, Lines(receiver)))
    }

    /// Sends it one input.
    pub(crate) async fn send_input(&mut self) -> Result<(), Failure> {
        match self.body.as_mut().expect("it runs") {
            Body::Process { input, .. } => Ok(input.write_all(b"go\n").await?),
            Body::Runtime { input, .. } => Ok(input.send(())?),
        }
    }

    /// Sends SIGSTOP or SIGCONT to a process. Has no effect on a runtime, whose work blocks itself.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Failure> {
        if let Some(Body::Process { child, .. }) = &self.body {
            let id = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
            kill_process(id.ok_or("the process has ended")?, signal)?;
        }
        Ok(())
    }

    /// Sends SIGKILL to a process. A runtime is cut off from the nodes before it is dropped, so
    /// that they are not notified of its end either.
    pub(crate) async fn kill(mut self) -> Result<(), Failure> {
        match self.body.take().expect("it runs") {
            Body::Process { mut child, .. } => child.kill().await?,
            Body::Runtime { runtime, link, .. } => {
                link.cut();
                drop(runtime);
            }
        }
        Ok(())
    }

    /// Ends its input, and waits for its end.
    pub(crate) async fn stop(mut self) -> Result<(), Failure> {
        let end = async {
            match self.body.take().expect("it runs") {
                Body::Process { mut child, input } => {
                    drop(input);
                    let status = child.wait().await?;
                    if status.success() { Ok(()) } else { Err(status.to_string().into()) }
                }
                Body::Runtime { runtime, input, ended, .. } => {
                    drop(input);
                    let result = ended.await?;
                    drop(runtime);
                    result
                }
            }
        };
        let ended = timeout(HANG_GUARD, end).await;
        ended.map_err(|_| format!("{} does not end", self.name))?
    }
}

fn start_process(
    part: &Part,
    urls: &[String],
    on_line: impl Fn(String) + Send + Sync + 'static,
) -> Result<Body, Failure> {
    let Part { role, name, arg } = part;
    let mut child = Command::new(env::current_exe()?)
        .args(["stories::member::member", "--exact", "--nocapture"])
        .env(VARIABLE, format!("{role:?} {name} {arg} {}", urls.join(",")))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let input = child.stdin.take().ok_or("no input")?;
    let output = child.stdout.take().ok_or("no output")?;
    tokio::spawn(async move {
        let mut lines = BufReader::new(output).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if let Some(line) = line.strip_prefix(PREFIX) {
                on_line(line.to_owned());
            }
        }
    });
    Ok(Body::Process { child, input })
}

/// The lines of one member.
pub(crate) struct Lines(UnboundedReceiver<String>);

impl Lines {
    pub(crate) async fn next(&mut self) -> Result<String, Failure> {
        let next = timeout(HANG_GUARD, self.0.recv()).await;
        Ok(next.map_err(|_| "the member hangs")?.ok_or("the member has ended")?)
    }
}

/// A runtime that is dropped without waiting for its tasks.
struct Background(Option<Runtime>);

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

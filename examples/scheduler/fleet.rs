//! Three replicas: processes over real servers, runtimes over nodes inside this process.

use std::{
    io::{Read, Write},
    process::Stdio,
    thread,
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, ChildStdin, Command},
    runtime::Runtime,
    sync::{mpsc, oneshot},
    task::JoinHandle,
};
use tower_redlock::Redlock;

use crate::{Failure, clock::SkewedClock, nodes::Nodes, replica, said::Said};

pub(crate) const NAMES: [&str; 3] = ["replica-a", "replica-b", "replica-c"];
/// By how much a replica's clock is ahead of the next one's.
const SKEW: Duration = Duration::from_millis(40);
/// A replica that does not end within this hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Fleet {
    nodes: Nodes,
    say: mpsc::UnboundedSender<Heard>,
    replicas: [Option<Body>; NAMES.len()],
}

/// Which replica said it, and what.
pub(crate) type Heard = (usize, Said);

enum Body {
    /// It stops when its standard input ends, so also when this process is gone.
    Process {
        child: Child,
        input: ChildStdin,
    },
    Runtime {
        runtime: Background,
        stop: oneshot::Sender<()>,
        ended: Ended,
    },
}

type Ended = JoinHandle<Result<(), Failure>>;

impl Fleet {
    pub(crate) fn start(nodes: Nodes) -> Result<(Self, mpsc::UnboundedReceiver<Heard>), Failure> {
        let (say, said) = mpsc::unbounded_channel();
        let mut fleet = Self { nodes, say, replicas: [const { None }; NAMES.len()] };
        for number in 0..NAMES.len() {
            fleet.start_replica(number)?;
        }
        Ok((fleet, said))
    }

    pub(crate) fn start_replica(&mut self, number: usize) -> Result<(), Failure> {
        let say = self.say.clone();
        let body = match &self.nodes {
            Nodes::Servers(_) => start_process(number, say)?,
            Nodes::Embedded(_) => start_runtime(number, manager(&self.nodes, number)?, say)?,
        };
        self.replicas[number] = Some(body);
        Ok(())
    }

    /// Without a word to it.
    pub(crate) async fn kill(&mut self, number: usize) -> Result<(), Failure> {
        match self.replicas[number].take() {
            Some(Body::Process { mut child, .. }) => child.kill().await?,
            // Its tasks are dropped with it.
            Some(Body::Runtime { .. }) | None => {}
        }
        Ok(())
    }

    /// Each gives its lock back, and ends.
    pub(crate) async fn stop(&mut self) -> Result<(), Failure> {
        let all = self.replicas.iter_mut().filter_map(Option::take);
        stop(all).await?;
        // Whoever listens hears the end.
        self.say = mpsc::unbounded_channel().0;
        Ok(())
    }

    /// Each but one gives its lock back, and ends.
    pub(crate) async fn stop_all_but(&mut self, number: usize) -> Result<(), Failure> {
        let others = self.replicas.iter_mut().enumerate().filter(|(other, _)| *other != number);
        stop(others.filter_map(|(_, replica)| replica.take())).await
    }

    /// How many keys are left on the nodes, if that can be told from here.
    pub(crate) fn keys_left(&self) -> Option<usize> {
        match &self.nodes {
            Nodes::Embedded(nodes) => Some(nodes.key_counts().iter().sum()),
            Nodes::Servers(_) => None,
        }
    }
}

/// What a replica's process does: it speaks on standard output.
pub(crate) async fn be(number: usize) -> Result<(), Failure> {
    let redlock = manager(&Nodes::from_env(), number)?;
    let (over, input_ended) = oneshot::channel::<()>();
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        drop(over);
    });
    // Ctrl-C goes to every process of a terminal.
    let stop = async {
        tokio::select! {
            _ = input_ended => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    // With nobody there to hear it, the input ends as well.
    let say = |said| {
        let _ = writeln!(std::io::stdout(), "{said}");
    };
    replica::run(redlock, say, stop).await
}

fn manager(nodes: &Nodes, number: usize) -> Result<Redlock, Failure> {
    let name = *NAMES.get(number).ok_or("there is no such replica")?;
    let ahead = SKEW * u32::try_from(NAMES.len() - 1 - number)?;
    Ok(nodes.builder().owner(name).clock(SkewedClock { ahead }).build()?)
}

/// This program once more.
fn start_process(number: usize, say: mpsc::UnboundedSender<Heard>) -> Result<Body, Failure> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--replica", &number.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let input = child.stdin.take().ok_or("a replica without input")?;
    let output = child.stdout.take().ok_or("a replica without output")?;
    tokio::spawn(async move {
        let mut lines = BufReader::new(output).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            // The last line of a process that was killed may be half a line.
            let _ = line.parse().map(|said| say.send((number, said)));
        }
    });
    Ok(Body::Process { child, input })
}

fn start_runtime(
    number: usize,
    redlock: Redlock,
    say: mpsc::UnboundedSender<Heard>,
) -> Result<Body, Failure> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build()?;
    let (stop, stopped) = oneshot::channel();
    let say = move |said| {
        // After the end nobody listens.
        let _ = say.send((number, said));
    };
    let ended = runtime.spawn(replica::run(redlock, say, stopped));
    Ok(Body::Runtime { runtime: Background(Some(runtime)), stop, ended })
}

async fn stop(replicas: impl Iterator<Item = Body>) -> Result<(), Failure> {
    // All are told before one is waited for.
    let told: Vec<_> = replicas.map(tell).collect();
    for ending in told {
        tokio::time::timeout(PATIENCE, ending.end()).await??;
    }
    Ok(())
}

/// A replica that was told to stop.
enum Ending {
    Process(Child),
    Runtime(Background, Ended),
}

fn tell(body: Body) -> Ending {
    match body {
        Body::Process { child, input } => {
            drop(input);
            Ending::Process(child)
        }
        Body::Runtime { runtime, stop, ended } => {
            let _ = stop.send(());
            Ending::Runtime(runtime, ended)
        }
    }
}

impl Ending {
    async fn end(self) -> Result<(), Failure> {
        match self {
            Self::Process(mut child) => {
                let status = child.wait().await?;
                if status.success() { Ok(()) } else { Err(format!("a replica: {status}").into()) }
            }
            Self::Runtime(_runtime, ended) => ended.await?,
        }
    }
}

/// Dropped without waiting for what runs on it.
struct Background(Option<Runtime>);

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

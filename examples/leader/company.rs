//! Candidates that are started, killed, or leave: processes over real servers, tasks over nodes
//! inside this process.

use std::{
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, ChildStdin, Command},
    sync::{mpsc::UnboundedSender, oneshot},
    task::JoinHandle,
};
use tower_redlock::{
    Redlock,
    node::{EmbeddedNodes, Hints, Node, NodeHealth, Op, Reply, Subscription},
};

use crate::{
    Failure,
    candidate::{self, Tick},
    nodes::Nodes,
};

/// What the director hears: who worked, and when.
pub(crate) type Heard = (usize, Tick);

pub(crate) struct Candidate {
    pub(crate) name: String,
    body: Body,
}

#[expect(clippy::large_enum_variant, reason = "there are three")]
enum Body {
    Process { child: Child, input: ChildStdin },
    Task { task: JoinHandle<Result<(), Failure>>, leave: oneshot::Sender<()>, cable: Cable },
}

impl Candidate {
    /// The candidate with this number, which is new.
    pub(crate) fn start(
        number: usize,
        nodes: &Nodes,
        heard: UnboundedSender<Heard>,
    ) -> Result<Self, Failure> {
        let name = format!("candidate-{number}");
        // Who directs may have stopped listening.
        let tell = move |tick| {
            let _ = heard.send((number, tick));
        };
        let body = match nodes {
            Nodes::Servers(_) => start_process(&name, tell)?,
            Nodes::Embedded(nodes) => start_task(&name, nodes, tell)?,
        };
        Ok(Self { name, body })
    }

    /// Ends it in the midst of its work; the nodes hear nothing of that.
    pub(crate) async fn kill(self) -> Result<(), Failure> {
        match self.body {
            Body::Process { mut child, .. } => child.kill().await?,
            Body::Task { task, cable, .. } => {
                cable.cut.store(true, Ordering::SeqCst);
                task.abort();
                let _ = task.await;
            }
        }
        Ok(())
    }

    /// Lets it hand over, and waits until it has ended.
    pub(crate) async fn leave(self) -> Result<(), Failure> {
        match self.body {
            Body::Process { mut child, input } => {
                drop(input);
                let status = child.wait().await?;
                if status.success() { Ok(()) } else { Err(format!("a candidate: {status}").into()) }
            }
            Body::Task { task, leave, .. } => {
                let _ = leave.send(());
                task.await?
            }
        }
    }
}

/// This program once more.
fn start_process(name: &str, tell: impl Fn(Tick) + Send + 'static) -> Result<Body, Failure> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--candidate", name])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let input = child.stdin.take().ok_or("a candidate without input")?;
    let output = child.stdout.take().ok_or("a candidate without output")?;
    tokio::spawn(async move {
        let mut lines = BufReader::new(output).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            // The last line of one that is killed may be cut short.
            if let Ok(tick) = line.parse() {
                tell(tick);
            }
        }
    });
    Ok(Body::Process { child, input })
}

fn start_task(
    name: &str,
    nodes: &EmbeddedNodes,
    tell: impl Fn(Tick) + Send + Sync + 'static,
) -> Result<Body, Failure> {
    let direct = Redlock::builder().nodes_from(nodes).build()?;
    let cable = Cable::default();
    let nodes = direct.nodes().iter().map(|node| Wired(Arc::clone(node), cable.clone()));
    let redlock = nodes.fold(Redlock::builder().owner(name), tower_redlock::RedlockBuilder::node);
    let redlock = redlock.build()?;
    let (leave, leaves) = oneshot::channel();
    let task = tokio::spawn(async move {
        candidate::stand(&redlock, tell, async { drop(leaves.await) }).await?;
        redlock.shutdown().await;
        Ok(())
    });
    Ok(Body::Task { task, leave, cable })
}

/// What connects a candidate with the nodes.
#[derive(Clone, Debug, Default)]
struct Cable {
    cut: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Wired(Arc<dyn Node>, Cable);

impl Node for Wired {
    fn send(&self, op: Op, reply: Reply) {
        // A reply that is dropped is one that never comes.
        if !self.1.cut.load(Ordering::SeqCst) {
            self.0.send(op, reply);
        }
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn health(&self) -> NodeHealth {
        self.0.health()
    }

    fn subscribe(&self, name: &Arc<str>, hints: Hints) -> Subscription {
        self.0.subscribe(name, hints)
    }
}

//! Two receivers: processes over real servers, runtimes over nodes inside this process.

use std::{future::Future, net::SocketAddr, path::PathBuf, process::Stdio, thread, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpListener,
    process::{Child, ChildStdin, Command},
    runtime::Runtime,
    sync::oneshot,
    task::JoinHandle,
};
use tower_redlock::Redlock;

use crate::{
    Failure, effects::Effects, nodes::Nodes, receiver, secret, shop::Shop, signature::Key,
};

/// A receiver that does not start, or end, within this hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// What receivers have in common.
pub(crate) struct Site {
    pub(crate) nodes: Nodes,
    pub(crate) effects: PathBuf,
}

pub(crate) struct Receiver {
    pub(crate) name: String,
    pub(crate) addr: SocketAddr,
    body: Body,
}

enum Body {
    /// It stops when its standard input ends, so also when this process is gone.
    Process { child: Child, input: ChildStdin },
    Runtime {
        runtime: Background,
        leave: oneshot::Sender<()>,
        ended: JoinHandle<Result<(), Failure>>,
    },
}

impl Site {
    /// Each start has a name of its own.
    pub(crate) async fn start(&self, name: &str) -> Result<Receiver, Failure> {
        let starting = async {
            match self.nodes {
                Nodes::Servers(_) => self.start_process(name).await,
                Nodes::Embedded(_) => self.start_runtime(name).await,
            }
        };
        let (addr, body) = tokio::time::timeout(PATIENCE, starting).await??;
        Ok(Receiver { name: name.to_owned(), addr, body })
    }

    /// How many locks are left on the nodes, if that can be told from here.
    pub(crate) fn locks_left(&self) -> Option<usize> {
        match &self.nodes {
            Nodes::Embedded(nodes) => Some(nodes.key_counts().iter().sum()),
            Nodes::Servers(_) => None,
        }
    }

    /// This program once more.
    async fn start_process(&self, name: &str) -> Result<(SocketAddr, Body), Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--receiver", name])
            .arg(&self.effects)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = child.stdin.take().ok_or("a receiver without input")?;
        let output = child.stdout.take().ok_or("a receiver without output")?;
        let line = BufReader::new(output).lines().next_line().await?;
        let addr = line.ok_or("a receiver ended before it listened")?.parse()?;
        Ok((addr, Body::Process { child, input }))
    }

    async fn start_runtime(&self, name: &str) -> Result<(SocketAddr, Body), Failure> {
        let redlock = self.nodes.builder().owner(name).build()?;
        let shop = Shop::new(name, Effects::open(&self.effects)?);
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = Background(Some(builder.worker_threads(1).enable_all().build()?));
        let (leave, leaves) = oneshot::channel::<()>();
        let (listens, listening) = oneshot::channel();
        let work = serve(redlock, shop, "127.0.0.1:0", leaves, move |addr| {
            let _ = listens.send(addr);
        });
        let ended = runtime.spawn(work)?;
        Ok((listening.await?, Body::Runtime { runtime, leave, ended }))
    }
}

impl Receiver {
    /// Without a word to it.
    pub(crate) async fn kill(self) -> Result<(), Failure> {
        match self.body {
            Body::Process { mut child, .. } => child.kill().await?,
            // Its tasks are dropped with it, and give their locks back on the way.
            Body::Runtime { runtime, .. } => drop(runtime),
        }
        Ok(())
    }

    /// It answers what it has begun, gives its locks back, and ends.
    pub(crate) async fn stop(self) -> Result<(), Failure> {
        let ending = async {
            match self.body {
                Body::Process { mut child, input } => {
                    drop(input);
                    let status = child.wait().await?;
                    let text = || format!("receiver {}: {status}", self.name);
                    if status.success() { Ok(()) } else { Err(text().into()) }
                }
                Body::Runtime { runtime, leave, ended } => {
                    let _ = leave.send(());
                    let result = ended.await?;
                    drop(runtime);
                    result
                }
            }
        };
        tokio::time::timeout(PATIENCE, ending).await?
    }
}

/// What a receiver's process does: it tells on standard output where it listens.
pub(crate) async fn be(name: &str, effects: PathBuf) -> Result<(), Failure> {
    let redlock = Nodes::from_env().builder().owner(name).build()?;
    let shop = Shop::new(name, Effects::open(&effects)?);
    let (over, input_ended) = oneshot::channel::<()>();
    thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        drop(over);
    });
    // Ctrl-C goes to every process of a terminal.
    let until = async {
        tokio::select! {
            _ = input_ended => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    serve(redlock, shop, "127.0.0.1:0", until, |addr| println!("{addr}")).await
}

/// Receives until `until` completes.
pub(crate) async fn serve<U>(
    redlock: Redlock,
    shop: Shop,
    addr: &str,
    until: U,
    listens: impl FnOnce(SocketAddr),
) -> Result<(), Failure>
where
    U: Future<Output: Send> + Send + 'static,
{
    // Before that every request would be answered 503.
    redlock.ready().await?;
    let listener = TcpListener::bind(addr).await?;
    listens(listener.local_addr()?);
    let router = receiver::router(redlock.clone(), Key::new(&secret())?, shop);
    axum::serve(listener, router)
        .with_graceful_shutdown(async move {
            until.await;
        })
        .await?;
    // Until the nodes know of every lock that was given back.
    redlock.shutdown().await;
    Ok(())
}

/// Dropped without waiting for what runs on it.
struct Background(Option<Runtime>);

impl Background {
    fn spawn<F>(&self, work: F) -> Result<JoinHandle<F::Output>, Failure>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        Ok(self.0.as_ref().ok_or("the runtime is gone")?.spawn(work))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

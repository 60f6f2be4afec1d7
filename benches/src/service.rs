//! A service over HTTP in its own process, with a lock around each request.

use std::{
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    process::Child,
    time::Duration,
};

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    routing::get,
};
use rslock::LockManager;
use tokio::{net::TcpListener, runtime::Runtime};
use tower_redlock::{LockContext, Redlock, RedlockLayer, key};

use crate::{contestants::votes, processor, role};

pub(crate) const ROLE: &str = "service";

/// The TTL of all services: this crate's default.
const TTL: Duration = Duration::from_secs(10);

/// The way in which a request gets its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// The handler uses no lock.
    None,
    /// The layer of this crate acquires it.
    Layer,
    /// The handler acquires and releases it with rslock.
    Rslock,
}

impl Guard {
    pub(crate) const ALL: [Self; 3] = [Self::None, Self::Layer, Self::Rslock];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "without a lock",
            Self::Layer => "`RedlockLayer`",
            Self::Rslock => "rslock 0.10 in the handler",
        }
    }
}

/// A running service. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Service {
    process: Child,
    pub(crate) addr: SocketAddr,
}

impl Service {
    /// Starts the process and waits until it listens.
    pub(crate) fn start(guard: Guard, urls: &[String]) -> Self {
        let number = Guard::ALL.iter().position(|one| *one == guard).expect("it is one of all");
        let mut process = role::start(ROLE, &format!("{number} {}", urls.join(" ")));
        let mut line = String::new();
        let stdout = process.stdout.as_mut().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("our child");
        Self { process, addr: line.trim().parse().expect("an address") }
    }

    /// Returns the processor time of the process, if the system reports it.
    pub(crate) fn processor_time(&self) -> Option<Duration> {
        processor::of(self.process.id())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // The process ends when its standard input is closed.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// Serves until the standard input ends.
pub(crate) fn obey(orders: &str) {
    let mut words = orders.split(' ');
    let number = words.next().and_then(|word| word.parse::<usize>().ok()).expect("a number");
    let urls: Vec<_> = words.map(ToOwned::to_owned).collect();
    let runtime = Runtime::new().expect("the system gives threads");
    runtime.block_on(async {
        let (redlock, app) = app(Guard::ALL[number], urls).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        println!("{}", listener.local_addr().expect("it is bound"));
        let serving = tokio::spawn(async move { axum::serve(listener, app).await });
        let ended = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0]));
        ended.await.expect("no task panics").expect("a pipe");
        serving.abort();
        if let Some(redlock) = redlock {
            redlock.shutdown().await;
        }
    });
}

async fn app(guard: Guard, urls: Vec<String>) -> (Option<Redlock>, Router) {
    match guard {
        Guard::None => (None, Router::new().route("/accounts/{id}", get(unguarded))),
        Guard::Layer => {
            let servers = urls.len();
            let redlock = Redlock::builder().nodes(urls).build().expect("valid settings");
            votes(&redlock, servers).await;
            let account = key::path_param("id").parsed::<u64>().prefixed("account:");
            let layer = RedlockLayer::new(redlock.clone(), account).http();
            let routes = Router::new().route("/accounts/{id}", get(guarded)).route_layer(layer);
            (Some(redlock), routes)
        }
        Guard::Rslock => {
            let routes = Router::new().route("/accounts/{id}", get(guarded_by_hand));
            (None, routes.with_state(LockManager::new(urls)))
        }
    }
}

async fn unguarded(Path(id): Path<u64>) -> String {
    format!("account {id}\n")
}

async fn guarded(Path(id): Path<u64>, lock: LockContext) -> String {
    format!("account {id} under token {}\n", lock.fencing_token())
}

async fn guarded_by_hand(
    State(manager): State<LockManager>,
    Path(id): Path<u64>,
) -> Result<String, StatusCode> {
    let lock = manager.lock(format!("account:{id}").as_str(), TTL).await;
    let lock = lock.map_err(|_| StatusCode::CONFLICT)?;
    let answer = format!("account {id} under {} bytes\n", lock.val.len());
    lock.release().await;
    Ok(answer)
}

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use rslock::LockManager;
use tower_redlock::Redlock;

use crate::options::Options;

/// The same for all: this crate's default.
const TTL: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Ours,
    Rslock,
    Floor,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Ours, Self::Rslock, Self::Floor];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "tower-redlock",
            Self::Rslock => "rslock 0.10",
            Self::Floor => "floor",
        }
    }
}

/// One way to take a lock and to give it back.
#[derive(Debug)]
pub(crate) enum Contestant {
    Ours {
        redlock: Redlock,
        await_release: bool,
    },
    /// One attempt, as with ours, and all else as it comes.
    Rslock(LockManager),
    Floor(Floor),
}

impl Contestant {
    pub(crate) async fn connect(kind: Kind, urls: Vec<String>, options: &Options) -> Self {
        match kind {
            Kind::Ours => {
                let redlock = Redlock::builder().nodes(urls).build().expect("valid settings");
                while !redlock.health().iter().all(tower_redlock::NodeHealth::is_voting) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Self::Ours { redlock, await_release: options.await_release }
            }
            // Connects at the first use.
            Kind::Rslock => {
                let mut manager = LockManager::new(urls);
                manager.set_retry(1, Duration::from_millis(200));
                Self::Rslock(manager)
            }
            Kind::Floor => Self::Floor(Floor::connect(&urls).await),
        }
    }

    /// Acquires and releases once.
    pub(crate) async fn cycle(&self, name: &str) -> Result<(), String> {
        match self {
            Self::Ours { redlock, await_release } => {
                let lock = redlock.lock(name).await.map_err(|error| error.to_string())?;
                if *await_release {
                    lock.release().await.map_err(|error| error.to_string())?;
                }
            }
            Self::Rslock(manager) => {
                let lock = manager.lock(name, TTL).await.map_err(|error| error.to_string())?;
                manager.unlock(&lock).await;
            }
            Self::Floor(floor) => floor.cycle(name).await?,
        }
        Ok(())
    }

    /// Waits until nothing of it is under way.
    pub(crate) async fn close(&self) {
        if let Self::Ours { redlock, .. } = self {
            redlock.shutdown().await;
        }
    }
}

/// The commands of the algorithm with the redis crate alone: one connection to each server, all
/// answers awaited, no token, no clock, nothing checked but that a quorum was set.
#[derive(Debug)]
pub(crate) struct Floor {
    nodes: Vec<MultiplexedConnection>,
    delete: String,
    next_value: AtomicU64,
}

const COMPARE_AND_DELETE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
     return redis.call('DEL', KEYS[1]) else return 0 end";

impl Floor {
    async fn connect(urls: &[String]) -> Self {
        let mut nodes = Vec::new();
        let mut delete = String::new();
        for url in urls {
            let client = redis::Client::open(url.as_str()).expect("a valid URL");
            let mut node = client.get_multiplexed_async_connection().await.expect("it is up");
            delete = redis::cmd("SCRIPT")
                .arg("LOAD")
                .arg(COMPARE_AND_DELETE)
                .query_async(&mut node)
                .await
                .expect("a valid script");
            nodes.push(node);
        }
        Self { nodes, delete, next_value: AtomicU64::new(0) }
    }

    async fn cycle(&self, name: &str) -> Result<(), String> {
        let value = format!("{:020}", self.next_value.fetch_add(1, Ordering::Relaxed));
        let value = value.as_str();
        let set = self.nodes.iter().map(async |node| {
            let mut command = redis::cmd("SET");
            command.arg(name).arg(value).arg("NX").arg("PX").arg(10_000);
            command.query_async::<Option<String>>(&mut node.clone()).await
        });
        let granted = join_all(set).await.into_iter().filter(|set| matches!(set, Ok(Some(_))));
        let granted = granted.count();
        let delete = self.nodes.iter().map(async |node| {
            let mut command = redis::cmd("EVALSHA");
            command.arg(&self.delete).arg(1).arg(name).arg(value);
            command.query_async::<u8>(&mut node.clone()).await
        });
        let _ = join_all(delete).await;
        let quorum = self.nodes.len() / 2 + 1;
        if granted < quorum { Err(format!("set on {granted} nodes")) } else { Ok(()) }
    }
}

//! The locks that are compared.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use rslock::LockManager;
use tower_redlock::{Lock, LockOptions, Redlock, lock::RuntimeSpawner, node::NodeHealth};

use crate::floor::Floor;

/// The TTL of all contestants: this crate's default.
const TTL: Duration = Duration::from_secs(10);
const LINGER: Duration = Duration::from_secs(1);
/// Timeout that no wait reaches.
const WAIT: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// The lock is dropped, and released in the background.
    Ours,
    /// The lock is released, and a quorum's acknowledgement is awaited, as the other contestants
    /// do.
    Awaited,
    /// Like `Ours`, with the manager's tasks on the runtime of the task that locks.
    OnRuntime,
    /// Like `Awaited`, with the manager's tasks on the runtime of the task that locks.
    OnRuntimeAwaited,
    /// Like `Ours`, and an idle lock stays with the process for a second unless another client
    /// requests it.
    Lingering,
    Rslock,
    Floor,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ours => "tower-redlock",
            Self::Awaited => "tower-redlock, release awaited",
            Self::OnRuntime => "tower-redlock, on the runtime",
            Self::OnRuntimeAwaited => "tower-redlock, on the runtime, release awaited",
            Self::Lingering => "tower-redlock, linger 1 s",
            Self::Rslock => "rslock 0.10",
            Self::Floor => "floor",
        }
    }
}

/// What a contestant does if another one holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// It makes one attempt, which fails.
    None,
    /// It waits as it does by default, until it has the lock.
    Endless,
}

/// One implementation that acquires and releases locks.
#[derive(Debug)]
pub(crate) enum Contestant {
    Ours { redlock: Redlock, is_awaited: bool },
    Rslock { manager: LockManager, waiting: Waiting },
    Floor(Floor),
}

#[derive(Debug)]
pub(crate) enum Held {
    Ours(Lock),
    Rslock(rslock::Lock),
    Floor(String),
}

impl Contestant {
    /// Waits until it can be used and `alive` of the servers vote.
    ///
    /// # Panics
    ///
    /// If it can't acquire an uncontended lock, as the failure would be measured.
    pub(crate) async fn connect(
        kind: Kind,
        urls: Vec<String>,
        alive: usize,
        waiting: Waiting,
    ) -> Self {
        static TRIALS: AtomicUsize = AtomicUsize::new(0);

        let contestant = Self::connect_untried(kind, urls, alive, waiting).await;
        let number = TRIALS.fetch_add(1, Ordering::Relaxed);
        let name = format!("trial:{}:{number}", std::process::id());
        let works = async { contestant.give_back(&name, contestant.acquire(&name).await?).await };
        if let Err(error) = works.await {
            panic!("{} can't lock: {error}", kind.name());
        }
        contestant
    }

    async fn connect_untried(
        kind: Kind,
        urls: Vec<String>,
        alive: usize,
        waiting: Waiting,
    ) -> Self {
        match kind {
            Kind::Ours
            | Kind::Awaited
            | Kind::Lingering
            | Kind::OnRuntime
            | Kind::OnRuntimeAwaited => {
                let wait = if waiting == Waiting::Endless { WAIT } else { Duration::ZERO };
                let linger = if kind == Kind::Lingering { LINGER } else { Duration::ZERO };
                let mut builder = Redlock::builder().nodes(urls).wait(wait).linger(linger);
                if matches!(kind, Kind::OnRuntime | Kind::OnRuntimeAwaited) {
                    builder = builder.spawner(RuntimeSpawner::current());
                }
                let redlock = builder.build().expect("valid settings");
                votes(&redlock, alive).await;
                let is_awaited = matches!(kind, Kind::Awaited | Kind::OnRuntimeAwaited);
                Self::Ours { redlock, is_awaited }
            }
            // It connects at its first use.
            Kind::Rslock => {
                let mut manager = LockManager::new(urls);
                if waiting == Waiting::None {
                    manager.set_retry(1, Duration::from_millis(200));
                }
                Self::Rslock { manager, waiting }
            }
            Kind::Floor => Self::Floor(Floor::connect(&urls).await),
        }
    }

    pub(crate) async fn acquire(&self, name: &str) -> Result<Held, String> {
        self.acquire_with(name, LockOptions::new()).await
    }

    /// Acquires with options, which only this crate's locks have.
    pub(crate) async fn acquire_with(
        &self,
        name: &str,
        options: LockOptions,
    ) -> Result<Held, String> {
        match self {
            Self::Ours { redlock, .. } => {
                let request = redlock.lock(name).options(options);
                request.await.map(Held::Ours).map_err(|error| error.to_string())
            }
            Self::Rslock { manager, waiting: Waiting::None } => {
                manager.lock(name, TTL).await.map(Held::Rslock).map_err(|error| error.to_string())
            }
            Self::Rslock { manager, waiting: Waiting::Endless } => manager
                .acquire_no_guard(name, TTL)
                .await
                .map(Held::Rslock)
                .map_err(|error| error.to_string()),
            Self::Floor(floor) => floor.acquire(name).await.map(Held::Floor),
        }
    }

    pub(crate) async fn give_back(&self, name: &str, held: Held) -> Result<(), String> {
        match (self, held) {
            (Self::Ours { is_awaited: true, .. }, Held::Ours(lock)) => {
                lock.release().await.map(drop).map_err(|error| error.to_string())?;
            }
            (_, Held::Ours(lock)) => drop(lock),
            (Self::Rslock { manager, .. }, Held::Rslock(lock)) => manager.unlock(&lock).await,
            (Self::Floor(floor), Held::Floor(value)) => floor.give_back(name, &value).await,
            (_, Held::Rslock(_) | Held::Floor(_)) => unreachable!("it was acquired by another"),
        }
        Ok(())
    }

    /// Waits until no operation of it is in flight.
    pub(crate) async fn close(&self) {
        if let Self::Ours { redlock, .. } = self {
            redlock.shutdown().await;
        }
    }
}

/// Waits until this number of servers votes. The servers of a new set vote after a while.
pub(crate) async fn votes(redlock: &Redlock, servers: usize) {
    while redlock.health().iter().filter(|node| NodeHealth::is_voting(node)).count() < servers {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

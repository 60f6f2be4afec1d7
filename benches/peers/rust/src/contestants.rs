//! The libraries that are compared: each makes one attempt, and awaits the acknowledgement of its release.

use std::time::Duration;

use distributed_lock_core::{DistributedLock, LockHandle, LockProvider};
use distributed_lock_redis::{RedisLockHandle, RedisLockProvider};
use rslock::LockManager;
use tower_redlock::{Redlock, node::NodeHealth};

/// rslock has no default TTL; this is tower-redlock's.
const TTL: Duration = Duration::from_secs(10);

/// One library, connected to the servers.
pub(crate) enum Contestant {
    TowerRedlock(Redlock),
    Rslock(LockManager),
    DistributedLock(RedisLockProvider),
}

/// A lock that is held.
pub(crate) enum Held {
    TowerRedlock(tower_redlock::Lock),
    Rslock(rslock::Lock),
    DistributedLock(RedisLockHandle),
}

impl Contestant {
    /// Connects, and waits until all servers vote where the library has votes.
    ///
    /// # Panics
    ///
    /// If there is no such contestant, or if it can't connect.
    pub(crate) async fn connect(kind: &str, urls: Vec<String>) -> Self {
        match kind {
            "tower-redlock" => {
                let redlock = Redlock::builder().nodes(urls).build().expect("valid settings");
                while !redlock.health().iter().all(NodeHealth::is_voting) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Self::TowerRedlock(redlock)
            }
            "rslock" => {
                let mut manager = LockManager::new(urls);
                // One attempt: a retry would hide a failure as a slow acquire.
                manager.set_retry(1, Duration::from_millis(200));
                Self::Rslock(manager)
            }
            "distributed-lock" => {
                let provider = RedisLockProvider::builder().urls(&urls).build().await;
                Self::DistributedLock(provider.expect("the servers run"))
            }
            _ => panic!("no such contestant: {kind}"),
        }
    }

    pub(crate) async fn acquire(&self, name: &str) -> Result<Held, String> {
        match self {
            Self::TowerRedlock(redlock) => {
                redlock.lock(name).await.map(Held::TowerRedlock).map_err(|error| error.to_string())
            }
            Self::Rslock(manager) => {
                manager.lock(name, TTL).await.map(Held::Rslock).map_err(|error| error.to_string())
            }
            Self::DistributedLock(provider) => match provider.create_lock(name).try_acquire().await
            {
                Ok(Some(handle)) => Ok(Held::DistributedLock(handle)),
                Ok(None) => Err("not acquired".to_owned()),
                Err(error) => Err(error.to_string()),
            },
        }
    }

    pub(crate) async fn release(&self, held: Held) -> Result<(), String> {
        match (self, held) {
            (_, Held::TowerRedlock(lock)) => {
                lock.release().await.map(drop).map_err(|error| error.to_string())
            }
            (Self::Rslock(manager), Held::Rslock(lock)) => {
                manager.unlock(&lock).await;
                Ok(())
            }
            (_, Held::DistributedLock(handle)) => {
                handle.release().await.map_err(|error| error.to_string())
            }
            (_, Held::Rslock(_)) => unreachable!("another contestant acquired it"),
        }
    }

    /// Waits until no operation of it is in flight, where the library can.
    pub(crate) async fn close(&self) {
        if let Self::TowerRedlock(redlock) = self {
            redlock.shutdown().await;
        }
    }
}

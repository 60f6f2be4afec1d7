//! Late commands of a server or a network that hung: the names that they lock are free soon after the
//! server answers, and not only when the keys expire.

use std::{
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::task::JoinSet;
use tower_redlock::{Lock, Redlock};

use crate::fixture::{
    Fixture, RedisServer, all_vote, connected, eventually_async, faults::down, over, urls,
};

/// Far longer than a name may stay locked: keys that disappear earlier were released.
const TTL: Duration = Duration::from_secs(10);
/// Limit for a busy machine. The keys are gone about a millisecond after the server votes, or at most
/// a second after a late delivery; without a fast repetition of releases they stay for the TTL.
const RELEASE_LIMIT: Duration = Duration::from_secs(2);
const HANG: Duration = Duration::from_secs(2);
/// Number of names that are acquired and dropped in a loop. With several, commands of a broken
/// connection end between an acquire and its release.
const NAMES: usize = 10;
/// Time for which each lock is held.
const HELD: Duration = Duration::from_millis(1);

fn name(i: usize) -> String {
    format!("n{i}")
}

/// Tasks that acquire and drop names, each its own.
struct Load {
    over: Arc<AtomicBool>,
    granted: Arc<AtomicUsize>,
    tasks: JoinSet<()>,
}

impl Load {
    fn start(redlock: &Redlock) -> Self {
        let over = Arc::<AtomicBool>::default();
        let granted = Arc::<AtomicUsize>::default();
        let mut tasks = JoinSet::new();
        for i in 0..NAMES {
            let (redlock, over) = (redlock.clone(), Arc::clone(&over));
            let granted = Arc::clone(&granted);
            tasks.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    if let Ok(lock) = redlock.lock(name(i)).await {
                        granted.fetch_add(1, Ordering::Relaxed);
                        tokio::time::sleep(HELD).await;
                        drop(lock);
                    }
                }
            });
        }
        Self { over, granted, tasks }
    }

    /// Waits until more locks were granted.
    async fn goes_on(&self) {
        let before = self.granted.load(Ordering::Relaxed);
        eventually_async("locks are granted", async || {
            self.granted.load(Ordering::Relaxed) > before + 10 * NAMES
        })
        .await;
    }

    async fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        self.tasks.join_all().await;
    }
}

/// Waits until the server has no key of a lock, at most for [`RELEASE_LIMIT`].
async fn all_free(server: &RedisServer, after: impl Debug) {
    let since = Instant::now();
    eventually_async("no lock is left", async || server.keys("redlock:lock:*").is_empty()).await;
    assert!(
        since.elapsed() < RELEASE_LIMIT,
        "names were locked for {:?} ({after:?})",
        since.elapsed()
    );
}

#[tokio::test]
async fn names_are_free_after_hangs_in_turn() {
    let servers = RedisServer::start_n(5);
    let redlock = connected(over(Redlock::builder().ttl(TTL), urls(&servers))).await;
    let load = Load::start(&redlock);
    for server in &servers[..2] {
        server.freeze();
        // The time for which the servers hang.
        tokio::time::sleep(HANG).await;
        server.thaw();
        all_vote(&redlock).await;
    }
    servers[2].freeze();
    load.goes_on().await;
    load.end().await;
    servers[3].freeze();

    // A quorum needs the votes of both servers that hung, and of the last one.
    let since = Instant::now();
    for i in 0..NAMES {
        drop(redlock.lock(name(i)).wait(TTL).await.expect("the name is free"));
    }
    assert!(since.elapsed() < RELEASE_LIMIT, "names were locked for {:?}", since.elapsed());
}

#[tokio::test]
async fn names_are_free_once_network_delivers() {
    let fixture = Fixture::new(3);
    let redlock = fixture.proxied(Redlock::builder().ttl(TTL)).await;
    let load = Load::start(&redlock);
    fixture.proxies[0].stall();
    tokio::time::sleep(HANG).await;
    load.end().await;

    fixture.proxies[0].resume();

    all_vote(&redlock).await;
    all_free(&fixture.servers[0], HANG).await;
}

#[tokio::test]
async fn names_are_free_after_network_lost_commands() {
    let fixture = Fixture::new(3);
    let redlock = fixture.proxied(Redlock::builder().ttl(TTL)).await;
    let load = Load::start(&redlock);
    load.goes_on().await;
    fixture.proxies[0].cut();
    load.goes_on().await;
    load.end().await;

    fixture.proxies[0].heal();

    all_vote(&redlock).await;
    all_free(&fixture.servers[0], HANG).await;
}

/// A proxy delivers what it has of a closed connection while the next one is in use.
#[tokio::test]
async fn names_are_free_after_late_delivery() {
    let fixture = Fixture::new(3);
    let redlock = fixture.proxied(Redlock::builder().ttl(TTL)).await;
    let load = Load::start(&redlock);
    fixture.proxies[0].hold();
    down(&redlock, 0).await;
    all_vote(&redlock).await;
    load.end().await;
    tokio::time::sleep(HANG).await;

    fixture.proxies[0].deliver();

    all_free(&fixture.servers[0], HANG).await;
}

/// The kinds of locks.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Name,
    Names,
    Slot,
    Shared,
}

const KINDS: [Kind; 4] = [Kind::Name, Kind::Names, Kind::Slot, Kind::Shared];

impl Kind {
    async fn acquire(self, redlock: &Redlock) -> Lock {
        let acquired = match self {
            Self::Name => redlock.lock("name").wait(TTL).await,
            Self::Names => redlock.lock(["first", "second"]).wait(TTL).await,
            Self::Slot => redlock.lock("slots").slots(2).wait(TTL).await,
            Self::Shared => redlock.lock("shared").shared().wait(TTL).await,
        };
        acquired.unwrap_or_else(|error| panic!("{self:?} is not granted: {error}"))
    }
}

/// What is under way when the server hangs.
#[derive(Clone, Copy, Debug)]
enum Step {
    Acquire,
    Extend,
    Release,
}

/// A server hangs at this step of a lock of each kind, which is released before it continues.
async fn assert_step_leaves_no_key(step: Step, hang: Duration) {
    let servers = RedisServer::start_n(3);
    let redlock = connected(over(Redlock::builder().ttl(TTL), urls(&servers))).await;
    let mut locks = Vec::new();
    if !matches!(step, Step::Acquire) {
        for kind in KINDS {
            locks.push(kind.acquire(&redlock).await);
        }
    }
    servers[0].freeze();
    match step {
        Step::Acquire => {
            for kind in KINDS {
                locks.push(kind.acquire(&redlock).await);
            }
        }
        Step::Extend => {
            for lock in &locks {
                // On a busy machine the others may be too slow.
                let _ = lock.extend().await;
            }
        }
        Step::Release => locks.clear(),
    }
    // The time for which the server hangs.
    tokio::time::sleep(hang).await;
    drop(locks);

    servers[0].thaw();

    all_vote(&redlock).await;
    all_free(&servers[0], step).await;
    // Late shared leases keep no writer out.
    servers[1].freeze();
    let since = Instant::now();
    drop(redlock.lock("shared").wait(TTL).await.expect("the name is free"));
    assert!(
        since.elapsed() < RELEASE_LIMIT,
        "a writer waited for {:?} ({step:?})",
        since.elapsed()
    );
}

#[tokio::test]
async fn hang_leaves_no_key() {
    for hang in [Duration::from_millis(300), Duration::from_secs(3)] {
        let at = |step| assert_step_leaves_no_key(step, hang);
        tokio::join!(at(Step::Acquire), at(Step::Extend), at(Step::Release));
    }
}

//! Readers and writers of several processes.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tower_redlock::{LockError, Redlock};

use crate::fixture::{
    HANG_GUARD, RedisServer, acl, connected, over, patient, urls,
    waiting::{granted, wait_for},
};

const MS: Duration = Duration::from_millis(1);
/// Duration of the contention.
const CONTENTION: Duration = Duration::from_secs(4);
/// Maximum time for which a name is free while requests wait for it, where nothing stalls: ten times what
/// is usual. A mark that outlives its request keeps readers out for 0.5 to 2 s.
const LONGEST_GAP: Duration = Duration::from_millis(100);
/// Maximum number of stalls of the machine in a gap: of a release, its report, two requests of the next
/// holder, and the tasks and threads that they wake.
const STALLS: u32 = 5;

/// How long nobody held a name while somebody waited for it.
#[derive(Default)]
struct Gaps {
    waiting: usize,
    holding: usize,
    free_since: Option<Instant>,
    longest: Duration,
    grants: [usize; 2],
    lost: usize,
}

impl Gaps {
    fn change(&mut self, waiting: isize, holding: isize) {
        self.waiting = self.waiting.checked_add_signed(waiting).expect("as many left");
        self.holding = self.holding.checked_add_signed(holding).expect("as many left");
        let now = Instant::now();
        if let Some(since) = self.free_since.take() {
            self.longest = self.longest.max(now - since);
        }
        self.free_since = (self.waiting > 0 && self.holding == 0).then_some(now);
    }
}

/// Holds the name again and again, and gives up every seventh request of a writer after a few ms.
async fn contend(redlock: Redlock, reads: bool, gaps: Arc<Mutex<Gaps>>, over: Arc<AtomicBool>) {
    for round in 0_u32.. {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let gives_up = !reads && round % 7 == 3;
        let wait = if gives_up { MS * (round % 20) } else { 6 * HANG_GUARD };
        let change = |waiting, holding| gaps.lock().unwrap().change(waiting, holding);
        change(1, 0);
        let requested = redlock.lock("x").wait(wait);
        match if reads { requested.shared().await } else { requested.await } {
            Ok(lock) => {
                change(-1, 1);
                // The duration of the work.
                tokio::time::sleep(MS * (1 + round % 5)).await;
                let mut gaps = gaps.lock().unwrap();
                gaps.change(0, -1);
                gaps.grants[usize::from(reads)] += 1;
                gaps.lost += usize::from(!lock.is_valid());
            }
            Err(error) => {
                assert!(
                    gives_up
                        && matches!(
                            error.root(),
                            LockError::Held { .. } | LockError::NoQuorum { .. }
                        ),
                    "{error}"
                );
                change(-1, 0);
            }
        }
        // The pause between two requests.
        tokio::time::sleep(MS * (round % 4)).await;
    }
}

/// Returns the longest time that a thread and then a server took to answer, until `over`.
fn longest_stall(servers: &[RedisServer], over: &AtomicBool) -> Duration {
    let mut longest = Duration::ZERO;
    while !over.load(Ordering::Relaxed) {
        let start = Instant::now();
        // The interval of the measurements.
        std::thread::sleep(10 * MS);
        for server in servers {
            server.cli(&["PING"]);
        }
        longest = longest.max(start.elapsed().saturating_sub(10 * MS));
    }
    longest
}

#[tokio::test]
async fn name_is_not_free_while_others_wait() {
    let servers = Arc::new(RedisServer::start_n(3));
    let (gaps, is_over) = (Arc::<Mutex<Gaps>>::default(), Arc::new(AtomicBool::new(false)));
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let manager = connected(over(Redlock::builder(), urls(&servers))).await;
        for task in 0..4 {
            let (gaps, is_over) = (Arc::clone(&gaps), Arc::clone(&is_over));
            tasks.push(tokio::spawn(contend(manager.clone(), task > 0, gaps, is_over)));
        }
    }

    let (probed, until) = (Arc::clone(&servers), Arc::clone(&is_over));
    let stall = tokio::task::spawn_blocking(move || longest_stall(&probed, &until));
    tokio::time::sleep(CONTENTION).await;
    is_over.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }

    let stall = stall.await.unwrap();
    let gaps = gaps.lock().unwrap();
    println!("longest gap {:?}, longest stall {stall:?}, {:?} grants", gaps.longest, gaps.grants);
    let most = LONGEST_GAP + STALLS * stall;
    assert!(gaps.longest < most, "free for {:?} while others waited ({stall:?})", gaps.longest);
    assert!(gaps.grants.iter().all(|grants| *grants > 0) && gaps.lost == 0, "{:?}", gaps.grants);
}

/// Without permission for channels, the owners of shared leases get no message.
#[tokio::test]
async fn writer_has_its_turn_without_channels() {
    let servers = RedisServer::start_n(3);
    let without: Vec<_> = acl::rules().into_iter().filter(|rule| !rule.starts_with('&')).collect();
    for server in &servers {
        server.set_rules(&without);
    }
    let ttl = Duration::from_secs(1);
    let readers = connected(over(patient().ttl(ttl), urls(&servers))).await;
    let other = connected(over(patient().ttl(ttl), urls(&servers))).await;
    let over = Arc::new(AtomicBool::new(false));
    let first = readers.lock("x").shared().await.unwrap();
    // Their holds overlap, so that the process has its lease all the time.
    let reading: Vec<_> = (0..4)
        .map(|_| {
            let (readers, over) = (readers.clone(), Arc::clone(&over));
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let lock = readers.lock("x").shared().wait(6 * HANG_GUARD).await.unwrap();
                    // The duration of the work.
                    tokio::time::sleep(20 * MS).await;
                    drop(lock);
                }
            })
        })
        .collect();
    let writing = wait_for(&other, "x");
    tokio::task::yield_now().await;
    drop(first);

    let lock = granted(writing).await;

    over.store(true, Ordering::Relaxed);
    drop(lock);
    for task in reading {
        task.await.unwrap();
    }
}

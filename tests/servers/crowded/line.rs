//! Managers whose tasks all wait for one name, and hold it for a fixed time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::task::JoinSet;
use tower_redlock::Redlock;

use crate::fixture::{HANG_GUARD, RedisServer, connected, over, patient, urls};

const MANAGERS: usize = 4;
const TASKS: usize = 4;
/// Number of requests ahead of each request in a fair queue.
const OTHERS: usize = MANAGERS * TASKS - 1;
const HOLD: Duration = Duration::from_millis(2);
/// Time until the waiters are registered.
const WARM_UP: usize = 200;
const GRANTS: usize = 1_000;

/// The time that a request waited, and the number of grants to others meanwhile.
type Wait = (Duration, usize);

async fn waits(redlock: Redlock, grants: Arc<AtomicUsize>) -> Vec<Wait> {
    let mut waits = Vec::new();
    loop {
        let (asked, before) = (Instant::now(), grants.load(Ordering::SeqCst));
        let lock = redlock.lock("x").wait(6 * HANG_GUARD).await.unwrap();
        let nth = grants.fetch_add(1, Ordering::SeqCst);
        if nth > WARM_UP + GRANTS {
            return waits;
        }
        if before > WARM_UP {
            waits.push((asked.elapsed(), nth - before));
        }
        // The duration of the work.
        tokio::time::sleep(HOLD).await;
        drop(lock);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_waiter_is_overtaken_for_long() {
    let servers = RedisServer::start_n(5);
    let grants = Arc::<AtomicUsize>::default();
    let mut running = JoinSet::new();
    let mut managers = Vec::new();
    for _ in 0..MANAGERS {
        managers.push(connected(over(patient(), urls(&servers))).await);
    }
    for (i, manager) in managers.iter().enumerate() {
        for _ in 0..TASKS {
            let (manager, grants) = (manager.clone(), Arc::clone(&grants));
            running.spawn(async move { (i, waits(manager, grants).await) });
        }
    }
    let started = Instant::now();
    let mut served = [0; MANAGERS];
    let (mut times, mut passed) = (Vec::new(), Vec::new());
    for (i, waits) in running.join_all().await {
        served[i] += waits.len();
        times.extend(waits.iter().map(|(time, _)| *time));
        passed.extend(waits.iter().map(|(_, passed)| *passed));
    }
    times.sort_unstable();
    passed.sort_unstable();
    let rank = |percent: usize| (times.len() - 1) * percent / 100;
    for percent in [50, 99, 100] {
        let (time, passed) = (times[rank(percent)], passed[rank(percent)]);
        println!("{percent} %: {time:?}, {passed} grants of others");
    }
    println!("{served:?} grants in {:?}", started.elapsed());

    // In the order of arrival, 15 requests would be ahead of each. If threads get no processor in
    // time, a few are late for their turn.
    let (nearly_all, most) = (passed[rank(99)], passed[rank(100)]);

    assert!(nearly_all <= 6 * OTHERS, "{nearly_all} others were granted it meanwhile");
    assert!(most <= 12 * OTHERS, "{most} others were granted it meanwhile");
}

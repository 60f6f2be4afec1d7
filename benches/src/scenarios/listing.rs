//! Locks that are listed while other locks are acquired and released.

use std::{
    future::IntoFuture,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::{runtime::Runtime, task::JoinSet, time::sleep};
use tower_redlock::{Lock, Redlock};

use crate::{
    contestants::{Kind, votes},
    options::Options,
    report::format::{significant, time},
    samples::emit,
    servers::Servers,
};

/// Number of locks that are held and listed.
const HELD: usize = 10_000;
/// TTL of the listed locks, longer than a measurement, as they are not renewed.
const HELD_TTL: Duration = Duration::from_secs(120);
/// Number of tasks that acquire and release their own names.
const TASKS: usize = 16;

pub(crate) const CASE: &str = "10,000 locks are listed, 16 tasks";

/// The reported quantities, by the names that the report uses.
pub(crate) const ALONE: &str = "cycles per s alone";
pub(crate) const MEANWHILE: &str = "cycles per s meanwhile";
pub(crate) const SHARE: &str = "share of the rate alone";
pub(crate) const TOOK: &str = "duration of the listing";

pub(crate) fn measure(servers: &Servers, options: &Options) {
    options.rounds(&[()], |()| {
        let runtime = Runtime::new().expect("the system gives threads");
        runtime.block_on(measure_one(servers, options.time));
        drop(runtime);
        servers.settle();
    });
}

async fn measure_one(servers: &Servers, window: Duration) {
    let (holder, busy, lister) =
        (connect(servers).await, connect(servers).await, connect(servers).await);
    let held = hold_all(&holder).await;
    let cycles = Arc::<AtomicU64>::default();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (busy, cycles) = (busy.clone(), Arc::clone(&cycles));
        tasks.spawn(async move {
            let name = format!("bench:busy:{task}");
            loop {
                let lock = busy.lock(&name).await.expect("it is free");
                lock.release().await.expect("it is released");
                cycles.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let before = rate(&cycles, sleep(window)).await;
    let begun = Instant::now();
    let mut found = 0;
    let listing = async {
        let ours = |name: &str| name.starts_with("bench:held:");
        let names = lister.locks().map_ok(|holder| usize::from(ours(&holder.name)));
        found = names.try_fold(0, async |sum, one| Ok(sum + one)).await.expect("a quorum answers");
    };
    let meanwhile = rate(&cycles, listing).await;
    let took = begun.elapsed().as_secs_f64();
    let after = rate(&cycles, sleep(window)).await;
    tasks.shutdown().await;
    assert_eq!(found, HELD, "each lock that is held throughout is listed once");
    drop(held);
    for redlock in [holder, busy, lister] {
        redlock.shutdown().await;
    }
    let alone = f64::midpoint(before, after);
    let share = meanwhile / alone;
    let [before, after] = [before, after].map(significant);
    eprintln!(
        "  {CASE}: {} per s, {before} before and {after} after: {}; listed in {}",
        significant(meanwhile),
        significant(share),
        time(took)
    );
    let who = Kind::Ours.name();
    for (what, value) in [(ALONE, alone), (MEANWHILE, meanwhile), (SHARE, share), (TOOK, took)] {
        emit(CASE, who, what, value);
    }
}

/// Returns the cycles per second during `meanwhile`.
#[expect(clippy::cast_precision_loss, reason = "a number for people")]
async fn rate(cycles: &AtomicU64, meanwhile: impl Future<Output = ()>) -> f64 {
    let (before, begun) = (cycles.load(Ordering::Relaxed), Instant::now());
    meanwhile.await;
    (cycles.load(Ordering::Relaxed) - before) as f64 / begun.elapsed().as_secs_f64()
}

async fn connect(servers: &Servers) -> Redlock {
    let builder = Redlock::builder().nodes(servers.urls()).max_ttl(HELD_TTL);
    let redlock = builder.build().expect("valid settings");
    votes(&redlock, servers.alive()).await;
    redlock
}

async fn hold_all(redlock: &Redlock) -> Vec<Lock> {
    let request = |i| {
        let request = redlock.lock(format!("bench:held:{i}")).wait(HELD_TTL);
        request.ttl(HELD_TTL).auto_extend(false).into_future()
    };
    let held = stream::iter((0..HELD).map(request)).buffer_unordered(64);
    held.map(|lock| lock.expect("it is free")).collect().await
}

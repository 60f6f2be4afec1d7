//! The cost of the thread that renews locks, for a request that ends before its first renewal.
//!
//! `cargo bench -p tower-redlock-benches --bench keeper`: cycles of one lock over one embedded
//! node, with the manager's thread and without one, in turns. Without it nothing is renewed and no
//! timer fires, but the entry among the timers is still inserted and removed. The cost of that is
//! measured separately, in a map with the same number of entries.

use std::{
    collections::BTreeMap,
    future::Future,
    hint::black_box,
    pin::Pin,
    sync::Mutex,
    task::Waker,
    time::{Duration, Instant},
};

use tower_redlock::{Lock, Redlock, lock::Spawner, node::EmbeddedNodes};

const ROUNDS: usize = 21;
const CYCLES: u32 = 20_000;
/// Number of locks that are held meanwhile, and renewed if there is a thread.
const HELD: usize = 1_000;

/// A spawner that runs nothing.
#[derive(Debug)]
struct Nobody;

impl Spawner for Nobody {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        drop(task);
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let ttl = Duration::from_secs(3600);
    let builder = || Redlock::builder().nodes_from(&EmbeddedNodes::new(1)).ttl(ttl);
    let with = builder().build().expect("valid settings");
    let without = builder().spawner(Nobody).build().expect("valid settings");
    let held: Vec<_> = [&with, &without].map(|redlock| runtime.block_on(hold(redlock))).into();
    let (mut keeper, mut entry) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (a, b) = if round % 2 == 0 {
            let a = runtime.block_on(cycles(&with));
            (a, runtime.block_on(cycles(&without)))
        } else {
            let b = runtime.block_on(cycles(&without));
            (runtime.block_on(cycles(&with)), b)
        };
        keeper.push(a - b);
        entry.push(entries());
    }
    drop(held);
    let (thread, map) = (median(&mut keeper), median(&mut entry));
    println!("| the thread | an entry among {HELD} timers | together | aim |");
    println!("|--:|--:|--:|--:|");
    println!("| {thread:.3} µs | {map:.3} µs | {:.3} µs | < 2 µs |", thread + map);
}

async fn hold(redlock: &Redlock) -> Vec<Lock> {
    let mut locks = Vec::with_capacity(HELD);
    for i in 0..HELD {
        locks.push(redlock.lock(format!("held:{i}")).await.expect("nobody else has it"));
    }
    locks
}

/// Returns the time to acquire and release a lock, in µs.
async fn cycles(redlock: &Redlock) -> f64 {
    let started = Instant::now();
    for _ in 0..CYCLES {
        drop(redlock.lock("x").await.expect("nobody else has it"));
    }
    micros(started)
}

/// Returns the time to insert and remove an entry, in µs.
fn entries() -> f64 {
    let map =
        Mutex::new((0..HELD).map(|i| ((i, i), Waker::noop().clone())).collect::<BTreeMap<_, _>>());
    let started = Instant::now();
    for i in 0..CYCLES as usize {
        let key = (HELD / 2, HELD + i);
        map.lock().expect("nobody panics").insert(black_box(key), Waker::noop().clone());
        drop(map.lock().expect("nobody panics").remove(black_box(&key)));
    }
    micros(started)
}

fn micros(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e6 / f64::from(CYCLES)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

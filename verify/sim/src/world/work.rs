//! The work of the processes.

mod after_faults;
mod jobs;
mod leader;
mod locks;
mod once;
mod requests;
mod several_sets;
mod sharing;
mod slots;

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tower_redlock::{LockContext, Redlock};

pub(super) use self::{
    after_faults::{
        every_process_acquires, neither_kind_starves, no_request_for_slots_starves,
        no_request_starves, writers_that_leave_delay_nobody,
    },
    several_sets::names_that_fail,
};
use super::{
    naive::Naive,
    process::Shared,
    scenario::{Contestant, Scenario, Work},
    sets::{self, List},
};
use crate::{
    oracle::{Oracle, Promise},
    rng::Rng,
};

/// Names of locks over one set of servers.
const NAMES: [&str; 3] = ["a", "b", "c"];
/// The name that has slots.
const POOL: &str = "pool";
/// Number of tasks of a process that hold slots: all of them want more slots than there are.
const SLOT_TASKS: usize = 2;

/// Timeout for a request after the faults.
const REQUEST_WAIT: Duration = Duration::from_secs(40);

/// Number of tasks of a process that share the names.
const SHARING_TASKS: usize = 3;

/// Starts the work of a process.
pub(super) fn start(shared: &Arc<Shared>, redlock: &Redlock, mut rng: Rng) {
    let is_rare = shared.scenario.is_rarely_busy(shared.client);
    let lockers = if shared.scenario.work == Work::Locks && !is_rare { 3 } else { 1 };
    for _ in 0..lockers {
        let rng = Rng::of(rng.number(), 6);
        shared.spawn(locks::lock_again_and_again(Arc::clone(shared), redlock.clone(), rng));
    }
    if let Some(slots) = shared.slots() {
        let mut rng = rng.clone();
        for _ in 0..SLOT_TASKS {
            let rng = Rng::of(rng.number(), 9);
            shared.spawn(slots::hold_slots(Arc::clone(shared), redlock.clone(), slots, rng));
        }
    }
    if shared.scenario.shares {
        let mut rng = rng.clone();
        for _ in 0..SHARING_TASKS {
            let rng = Rng::of(rng.number(), 12);
            shared.spawn(sharing::share_again_and_again(Arc::clone(shared), redlock.clone(), rng));
        }
    }
    if shared.scenario.sets(shared.list).len() > 1 {
        let rng = Rng::of(rng.clone().number(), 14);
        shared.spawn(several_sets::request_two_sets(Arc::clone(shared), redlock.clone(), rng));
    }
    let rng = Rng::of(rng.number(), 7);
    match shared.scenario.work {
        Work::Locks => {}
        Work::Jobs if shared.scenario.contestant == Contestant::LeaseOnly => {
            shared.spawn(jobs::by_lease_only(Arc::clone(shared), redlock.clone()));
        }
        Work::Jobs => shared.spawn(jobs::schedule(Arc::clone(shared), redlock.clone(), rng)),
        Work::Once => {
            for number in 0..2 {
                let rng = Rng::of(rng.clone().number(), number);
                shared.spawn(once::once_each(Arc::clone(shared), redlock.clone(), rng));
            }
        }
        Work::Leader => shared.spawn(leader::lead(Arc::clone(shared), redlock.clone(), rng)),
    }
}

/// Starts the work of a process of a control.
pub(super) fn start_naive(shared: &Arc<Shared>, naive: &Arc<Naive>, mut rng: Rng) {
    for _ in 0..2 {
        let rng = Rng::of(rng.number(), 6);
        let (shared, naive) = (Arc::clone(shared), Arc::clone(naive));
        match (shared.scenario.contestant, shared.slots()) {
            (Contestant::Counting, Some(slots)) => {
                shared.clone().spawn(slots::count_holders(shared, naive, slots, rng));
            }
            _ => shared.clone().spawn(locks::lock_naively(shared, naive, rng)),
        }
    }
}

impl Scenario {
    /// Returns the names of locks. The first two are also locked together.
    fn names(&self) -> &'static [&'static str; 3] {
        if self.list == List::Plain { &NAMES } else { &sets::NAMES }
    }
}

impl Shared {
    /// Runs a task of the work.
    pub(super) fn spawn(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.fetch_add(1, Ordering::Relaxed);
        let count = TaskCount(Arc::clone(&self.tasks));
        self.gate.run(async move {
            let _count = count;
            task.await;
        });
    }

    /// Returns the number of tasks of the work that have not ended.
    pub(super) fn tasks_left(&self) -> usize {
        self.tasks.load(Ordering::Relaxed)
    }

    /// Sleeps, or returns early when the work should end.
    async fn sleep(&self, time: Duration) {
        let mut stop = self.stop.subscribe();
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => {}
            () = tokio::time::sleep(time) => {}
        }
    }
}

struct TaskCount(Arc<AtomicUsize>);

impl Drop for TaskCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Work that checks at each poll that its lock has not ended.
struct Checked<F> {
    context: LockContext,
    oracle: Oracle,
    work: Pin<Box<F>>,
}

impl<F: Future> Checked<F> {
    fn new(context: LockContext, oracle: &Oracle, work: F) -> Self {
        Self { context, oracle: oracle.clone(), work: Box::pin(work) }
    }
}

impl<F: Future> Future for Checked<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if self.context.remaining().is_zero() {
            let names = self.context.resource().to_string();
            self.oracle
                .broken(Promise::HardStop, format!("work under {names} is polled after its end"));
        }
        self.work.as_mut().poll(cx)
    }
}

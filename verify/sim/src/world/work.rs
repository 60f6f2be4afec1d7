//! The work of the processes.

mod jobs;
mod leader;
mod locks;
mod once;

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tower_redlock::{LockContext, LockError, Redlock};

use super::{
    machine::Machines,
    naive::Naive,
    process::Shared,
    scene::{Contestant, Work},
};
use crate::{
    oracle::{Oracle, Promise},
    rng::Rng,
};

/// Names of locks.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Starts the work of a process.
pub(super) fn start(shared: &Arc<Shared>, redlock: &Redlock, mut rng: Rng) {
    let lockers = if shared.scene.work == Work::Locks { 3 } else { 1 };
    for _ in 0..lockers {
        let rng = Rng::of(rng.number(), 6);
        shared.spawn(locks::lock_again_and_again(Arc::clone(shared), redlock.clone(), rng));
    }
    let rng = Rng::of(rng.number(), 7);
    match shared.scene.work {
        Work::Locks => {}
        Work::Jobs if shared.scene.contestant == Contestant::LeaseOnly => {
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

/// Starts the work of a process of the control.
pub(super) fn start_naive(shared: &Arc<Shared>, naive: &Arc<Naive>, mut rng: Rng) {
    for _ in 0..2 {
        let rng = Rng::of(rng.number(), 6);
        shared.spawn(locks::lock_naively(Arc::clone(shared), Arc::clone(naive), rng));
    }
}

impl Shared {
    /// Runs a task of the work.
    pub(super) fn spawn(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.fetch_add(1, Ordering::Relaxed);
        let left = Left(Arc::clone(&self.tasks));
        self.gate.run(async move {
            let _left = left;
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

struct Left(Arc<AtomicUsize>);

impl Drop for Left {
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

/// Timeout for a request of a name that others use, after the faults.
const PATIENCE: Duration = Duration::from_secs(40);

/// Each process gets each name.
pub(super) async fn every_process_acquires(machines: &Machines, oracle: &Oracle) {
    let mut waiting = Vec::new();
    for process in machines.processes() {
        let Some(redlock) = &process.redlock else { continue };
        for name in NAMES {
            let (redlock, client) = (redlock.clone(), process.shared.client);
            let (tell, told) = tokio::sync::oneshot::channel();
            process.gate.run(async move {
                let got = redlock.lock(name).wait(PATIENCE).await;
                // Fails if the run is over.
                let _ = tell.send(got.map(drop));
            });
            waiting.push((client, name, told));
        }
    }
    for (client, name, told) in waiting {
        match tokio::time::timeout(PATIENCE + Duration::from_secs(2), told).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => {
                oracle.broken(Promise::Liveness, format!("c{client} does not get {name}: {error}"));
            }
            _ => {
                oracle
                    .broken(Promise::Ends, format!("c{client}'s request for {name} does not end"));
            }
        }
    }
    oracle.event("everyone got every name");
}

/// A name for which all processes contend continuously.
const HOT: &str = "hot";
/// Number of tasks of a process that request it repeatedly.
const EAGER: usize = 2;
/// Duration of a hold.
const HELD: Duration = Duration::from_millis(1);
/// Number of requests of each process that are checked, one after the other.
const REQUESTS: usize = 5;
/// Maximum number of holds by others while a request waits: two processes for 100 ms each, as they
/// may not know of the others yet, and then for a turn.
const OVERTAKEN: usize = 250;

/// Requests each name for which others contend continuously, and checks that no request is
/// overtaken too often.
pub(super) async fn no_request_starves(machines: &Machines, oracle: &Oracle) {
    let over = Arc::new(AtomicBool::new(false));
    let mut waiting = Vec::new();
    for process in machines.processes() {
        let Some(redlock) = &process.redlock else { continue };
        let client = process.shared.client;
        for _ in 0..EAGER {
            let (redlock, oracle, over) = (redlock.clone(), oracle.clone(), Arc::clone(&over));
            process.gate.run(async move {
                while !over.load(Ordering::Relaxed) {
                    if hold_hot(&redlock, &oracle, client).await.is_err() {
                        tokio::time::sleep(HELD).await;
                    }
                }
            });
        }
        let (redlock, oracle) = (redlock.clone(), oracle.clone());
        let (tell, told) = tokio::sync::oneshot::channel();
        process.gate.run(async move {
            let mut most = 0;
            for _ in 0..REQUESTS {
                let before = oracle.holds_of(HOT);
                if let Err(error) = hold_hot(&redlock, &oracle, client).await {
                    let text = format!("c{client} does not get {HOT}: {error}");
                    oracle.broken(Promise::Liveness, text);
                }
                most = most.max(oracle.holds_of(HOT) - before);
            }
            // Fails if the run is over.
            let _ = tell.send(most);
        });
        waiting.push((client, told));
    }
    for (client, told) in waiting {
        match tokio::time::timeout(PATIENCE, told).await {
            Ok(Ok(most)) if most <= OVERTAKEN => {}
            Ok(Ok(most)) => {
                let text = format!("a request of c{client} waited for {most} holds of others");
                oracle.broken(Promise::Liveness, text);
            }
            _ => {
                let text =
                    format!("c{client} does not get {HOT}, which others hold again and again");
                oracle.broken(Promise::Liveness, text);
            }
        }
    }
    over.store(true, Ordering::Relaxed);
    oracle.event("nobody starved");
}

async fn hold_hot(redlock: &Redlock, oracle: &Oracle, client: usize) -> Result<(), LockError> {
    let lock = redlock.lock(HOT).wait(PATIENCE).await?;
    let (belief, token) = (lock.context(), lock.fencing_token().get());
    let guard = oracle.held(client, &[HOT], token, move || !belief.remaining().is_zero());
    tokio::time::sleep(HELD).await;
    guard.check();
    Ok(())
}

//! A worker process: tasks that acquire locks, hold them for a while, and report; and the state of
//! the nodes from the view of the client.

mod locks;
mod options;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};
use tower_redlock::time::{Clock, SystemClock};

use crate::observations::Observation;
pub(crate) use locks::TTL;
pub(crate) use options::{Client, WORKER, WorkerOptions};
use tower_redlock_verify::locks::Locks;
use tower_redlock_verify::task::{Task, TaskOptions};
use tower_redlock_verify::workers::{NOTE, READY};

const SHUTDOWN: Duration = Duration::from_secs(3);

/// Interval between two checks of the nodes.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Works until the process receives a signal to terminate.
pub(crate) fn run(options: &WorkerOptions) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    runtime.block_on(async {
        let terminate = signal(SignalKind::terminate());
        let mut terminate = terminate.map_err(|error| format!("no signals: {error}"))?;
        let locks = Arc::new(locks::locks(options)?);
        let watching = tokio::spawn(watch(Arc::clone(&locks)));
        tokio::select! {
            ready = locks.ready() => {
                ready?;
                println!("{READY}");
            }
            _ = terminate.recv() => return Ok(()),
        }
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (0..options.tasks).map(|number| {
            let WorkerOptions { worker, tasks, seed, .. } = *options;
            let task = TaskOptions { worker, tasks, number, seed, ttl: TTL, slots: None };
            tokio::spawn(Task::new(task, Arc::clone(&locks), Arc::clone(&stop)).run())
        });
        let tasks: Vec<_> = tasks.collect();
        terminate.recv().await;
        stop.store(true, Ordering::Relaxed);
        for task in tasks {
            task.await.map_err(|error| format!("a task failed: {error}"))?;
        }
        watching.abort();
        let _ = timeout(SHUTDOWN, locks.shutdown()).await;
        Ok(())
    })
}

/// Prints each change of a node.
async fn watch(locks: Arc<Locks>) {
    let Locks::Redlock(redlock) = &*locks else { return };
    let clock = SystemClock::new();
    let mut latest: Vec<Option<Observation>> = Vec::new();
    loop {
        let at = clock.now().as_nanos();
        let health = redlock.health();
        latest.resize(health.len(), None);
        for (node, (before, health)) in latest.iter_mut().zip(&health).enumerate() {
            let observation = Observation::of(node, health, at);
            if before.as_ref().is_none_or(|before| observation.is_other_than(before)) {
                println!("{NOTE}{}", observation.to_words());
                *before = Some(observation);
            }
        }
        sleep(LOOK_INTERVAL).await;
    }
}

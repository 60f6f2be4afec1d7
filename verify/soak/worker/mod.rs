//! A worker process: tasks that acquire locks, hold them for a while, and report.

mod locks;
mod options;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use crate::trial::LocksKind;
pub(crate) use options::{WORKER, WorkerOptions};
use tower_redlock_verify::task::{Task, TaskOptions};
use tower_redlock_verify::workers::READY;

const SHUTDOWN: Duration = Duration::from_secs(3);

/// Returns the number of slots that a worker uses: one of them has fewer than the others, as in a
/// deployment that changes it.
fn slots(options: &WorkerOptions) -> Option<u32> {
    let has_slots = options.locks != LocksKind::Plain;
    has_slots.then_some(if options.worker == 0 { 2 } else { 3 })
}

/// Works until the process receives a signal to terminate.
pub(crate) fn run(options: &WorkerOptions) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    runtime.block_on(async {
        let terminate = signal(SignalKind::terminate());
        let mut terminate = terminate.map_err(|error| format!("no signals: {error}"))?;
        let locks = Arc::new(locks::locks(options)?);
        tokio::select! {
            ready = locks.ready() => {
                ready?;
                println!("{READY}");
            }
            _ = terminate.recv() => return Ok(()),
        }
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (0..options.tasks).map(|number| {
            let WorkerOptions { worker, tasks, seed, ttl, .. } = *options;
            let slots = slots(options);
            let task = TaskOptions { worker, tasks, number, seed, ttl, slots };
            tokio::spawn(Task::new(task, Arc::clone(&locks), Arc::clone(&stop)).run())
        });
        let tasks: Vec<_> = tasks.collect();
        terminate.recv().await;
        stop.store(true, Ordering::Relaxed);
        for task in tasks {
            task.await.map_err(|error| format!("a task failed: {error}"))?;
        }
        let _ = timeout(SHUTDOWN, locks.shutdown()).await;
        Ok(())
    })
}

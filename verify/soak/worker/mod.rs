//! A worker process: tasks that take locks, hold them for a while, and tell.

mod locks;
mod options;
mod task;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

pub(crate) use options::{WORKER, WorkerOptions};
use task::Task;

/// The line that a worker prints once a quorum of servers votes.
pub(crate) const READY: &str = "ready";

const SHUTDOWN: Duration = Duration::from_secs(3);

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
            let task = Task::new(options, number, Arc::clone(&locks), Arc::clone(&stop));
            tokio::spawn(task.run())
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

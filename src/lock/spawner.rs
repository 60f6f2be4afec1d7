use std::{fmt, future::Future, io, pin::Pin, thread, time::Duration};

use tokio::{sync::mpsc, task::JoinSet};

/// Runs the crate's own tasks: connections, timers, renewals.
///
/// They must not depend on the runtime of the work that they guard: it may be saturated, blocked,
/// or gone before the locks are given back. A simulation runs them as tasks of its own instead.
pub trait Spawner: fmt::Debug + Send + Sync + 'static {
    /// Runs a task to its end, inside a tokio runtime with time and I/O enabled.
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>);
}

/// One thread with a runtime of its own; it ends when the last handle and the last lock are gone.
#[derive(Debug)]
pub struct ThreadSpawner {
    tasks: mpsc::UnboundedSender<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// How long the thread stays, after the last handle is gone, for releases that are under way.
const LINGER: Duration = Duration::from_secs(5);

impl ThreadSpawner {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// What the operating system says when it gives no thread or no event queue.
    pub fn start() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (tasks, mut receiver) = mpsc::unbounded_channel();
        let run = async move {
            let mut running = JoinSet::new();
            loop {
                tokio::select! {
                    task = receiver.recv() => match task {
                        Some(task) => {
                            running.spawn(task);
                        }
                        None => break,
                    },
                    Some(_) = running.join_next() => {}
                }
            }
            let end = async { while running.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(LINGER, end).await;
        };
        thread::Builder::new().name("tower-redlock".into()).spawn(move || runtime.block_on(run))?;
        Ok(Self { tasks })
    }
}

impl Spawner for ThreadSpawner {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        // The thread receives for as long as this sender lives.
        let _ = self.tasks.send(task);
    }
}

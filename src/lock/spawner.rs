//! What runs the crate's own tasks.

use std::{
    fmt,
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Wake, Waker},
    time::Duration,
};

use tokio::{sync::mpsc, task::JoinSet};

use crate::sync::thread;

/// Runs the crate's own tasks: connections, timers, renewals.
///
/// They must not depend on the runtime of the guarded work, which may be saturated, blocked, or shut
/// down before the locks are released. A simulation may run them as its own tasks.
pub trait Spawner: fmt::Debug + Send + Sync + 'static {
    /// Runs a task to its end, inside a tokio runtime with time and I/O enabled.
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>);

    /// Runs a task that blocks its thread. Default: on its own thread with this name.
    ///
    /// # Errors
    ///
    /// The operating system gave no thread. The task is dropped.
    fn spawn_blocking(
        &self,
        name: &str,
        task: Pin<Box<dyn Future<Output = ()> + Send>>,
    ) -> io::Result<()> {
        run_on_thread(name, task)
    }

    /// Whether a scheduler of this manager without its own spawner runs its jobs here. Default: no; they
    /// run on the tokio runtime in which the scheduler is started.
    fn runs_jobs(&self) -> bool {
        false
    }
}

fn run_on_thread(name: &str, mut task: Pin<Box<dyn Future<Output = ()> + Send>>) -> io::Result<()> {
    let poll_to_end = move || {
        let waker = Waker::from(Arc::new(ThreadWaker(thread::current())));
        let mut cx = Context::from_waker(&waker);
        while task.as_mut().poll(&mut cx).is_pending() {
            thread::park();
        }
    };
    thread::Builder::new().name(name.into()).spawn(poll_to_end).map(drop)
}

struct ThreadWaker(thread::Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// One thread with its own runtime. It ends after the last handle and the last lock are dropped.
#[derive(Debug)]
pub struct ThreadSpawner {
    tasks: mpsc::UnboundedSender<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// Time for which the thread continues after that, for releases in flight.
const LINGER: Duration = Duration::from_secs(5);

impl ThreadSpawner {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// The operating system gave no thread or no event queue.
    pub fn start() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (tasks, mut receiver) = mpsc::unbounded_channel();
        let run = async move {
            let mut running = JoinSet::new();
            loop {
                tokio::select! {
                    biased;
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
        // The thread receives while this sender exists.
        let _ = self.tasks.send(task);
    }
}

//! What runs the crate's own tasks.

use std::{fmt, future::Future, io, pin::Pin, time::Duration};

use tokio::{runtime::Handle, sync::mpsc, task::JoinSet};

use crate::sync::{block_on, thread};

/// Runs the crate's own tasks: connections, timers, renewals.
///
/// By default a [`ThreadSpawner`] runs them, so that they do not depend on the runtime of the
/// guarded work, which may be saturated, blocked, or shut down before the locks are released.
/// [`RuntimeSpawner`] runs them in the application's runtime nevertheless. A simulation may run
/// them as its own tasks.
pub trait Spawner: fmt::Debug + Send + Sync + 'static {
    /// Runs a task to its end, inside a tokio runtime with time and I/O enabled.
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>);

    /// Runs a task that blocks its thread. Default: on its own thread with this name.
    ///
    /// # Errors
    /// The operating system could not create a thread. The task is dropped.
    fn spawn_blocking(
        &self,
        name: &str,
        task: Pin<Box<dyn Future<Output = ()> + Send>>,
    ) -> io::Result<()> {
        run_on_thread(name, task)
    }

    /// Returns whether tasks may be dropped before their end, because their runtime is shut down.
    /// Then no node can be reached any more, and waits end by timers on a thread of the crate's
    /// own. Default: no.
    fn may_drop_tasks(&self) -> bool {
        false
    }

    /// Returns whether a scheduler of this manager without its own spawner runs its jobs here.
    /// Default: no; they run on the tokio runtime in which the scheduler is started.
    fn runs_jobs(&self) -> bool {
        false
    }
}

fn run_on_thread(name: &str, task: Pin<Box<dyn Future<Output = ()> + Send>>) -> io::Result<()> {
    thread::Builder::new().name(name.into()).spawn(move || block_on(task)).map(drop)
}

/// One thread with its own runtime. It ends after the last handle and the last lock are dropped.
#[derive(Debug)]
pub struct ThreadSpawner {
    tasks: mpsc::UnboundedSender<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// Time for which the thread continues after that, for releases in flight.
const RELEASE_GRACE: Duration = Duration::from_secs(5);

impl ThreadSpawner {
    /// Starts the thread.
    ///
    /// # Errors
    /// The operating system could not create a thread or an event queue.
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
            let _ = tokio::time::timeout(RELEASE_GRACE, end).await;
        };
        thread::Builder::new().name("tower-redlock".into()).spawn(move || runtime.block_on(run))?;
        Ok(Self { tasks })
    }
}

impl Spawner for ThreadSpawner {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        // The thread receives until this sender is dropped.
        let _ = self.tasks.send(task);
    }
}

/// Tasks of a runtime of the application, without a thread of the crate's own.
///
/// A single task that takes one lock after the other is faster: it and the connections share a
/// thread, and none has to be woken. On two processors, over servers on the same host, a cycle
/// takes about a fifth less time with five servers and a third less with one; with 64 tasks at once
/// it takes up to a tenth more, as they compete with the connections.
///
/// The price: the crate's tasks run only when the runtime does. Where all its threads are blocked,
/// or it is saturated,
///
/// - renewals are late or don't happen. After the validity a lock is lost, though its work never
///   stopped;
/// - no [`Overrun`](super::Overrun) is noticed, and the hard stop comes with the next poll, which reads the
///   clock as always;
/// - votes are counted late, and requests fail with [`TooSlow`](crate::LockError::TooSlow).
///
/// And where the runtime is shut down, no release is sent any more: names stay locked until their
/// keys expire, and requests fail. So call [`Redlock::shutdown`](crate::Redlock::shutdown) first,
/// and use this where nothing blocks the runtime.
///
/// ```
/// use tower_redlock::{Redlock, lock::RuntimeSpawner, node::EmbeddedNodes};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let redlock = Redlock::builder()
///     .nodes_from(&EmbeddedNodes::new(3))
///     .spawner(RuntimeSpawner::current())
///     .build()?;
/// let lock = redlock.lock("nightly").await?;
/// # drop(lock);
/// # redlock.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RuntimeSpawner(Handle);

impl RuntimeSpawner {
    /// Returns the runtime of the caller, whose time and I/O have to be enabled.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    #[must_use]
    pub fn current() -> Self {
        Self(Handle::current())
    }
}

impl From<Handle> for RuntimeSpawner {
    fn from(runtime: Handle) -> Self {
        Self(runtime)
    }
}

impl Spawner for RuntimeSpawner {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        drop(self.0.spawn(task));
    }

    fn may_drop_tasks(&self) -> bool {
        true
    }
}

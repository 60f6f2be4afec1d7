//! The tasks of a manual clock.

use std::{
    collections::VecDeque,
    fmt,
    future::{Future, poll_fn},
    io,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, Wake, Waker},
};

use super::reentrant_lock::ReentrantLock;
use crate::{
    lock::Spawner,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

type BoxTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Maximum number of polls without a move of the clock. More polls mean that a task wakes itself
/// forever.
const MAX_POLLS: usize = 1_000_000;

/// Tasks that run while the clock is moved or settled, on the thread that does so.
#[derive(Debug)]
pub(super) struct Tasks {
    ready: Mutex<ReadyQueue>,
    spawned: Mutex<SpawnedTasks>,
    pub(super) lock: ReentrantLock,
}

/// The tasks that may not be done.
#[derive(Debug, Default)]
struct SpawnedTasks {
    cells: Vec<Weak<TaskCell>>,
    /// Number of tasks at which those that are done are removed.
    prune_at: usize,
}

impl SpawnedTasks {
    fn add(&mut self, cell: &Arc<TaskCell>) {
        if self.cells.len() >= self.prune_at {
            self.cells.retain(|cell| cell.strong_count() > 0);
            self.prune_at = 2 * self.cells.len() + 16;
        }
        self.cells.push(Arc::downgrade(cell));
    }

    /// Drops the tasks, which breaks the cycle of tasks whose waits hold the tasks.
    fn drop_all(self) {
        for cell in self.cells.iter().filter_map(Weak::upgrade) {
            let future = crate::sync::lock(&cell.future).take();
            drop(future);
        }
    }
}

#[derive(Debug, Default)]
struct ReadyQueue {
    entries: VecDeque<Arc<TaskCell>>,
    /// The task that waits in [`Tasks::woken`].
    waker: Option<Waker>,
}

struct TaskCell {
    /// `None` while the task is polled, and once it is done.
    future: Mutex<Option<BoxTask>>,
    queued: AtomicBool,
    /// Whether the task was woken while it was polled further up the stack.
    missed: AtomicBool,
    tasks: Weak<Tasks>,
}

impl Tasks {
    pub(super) fn new(seed: u64) -> Self {
        Self { ready: Mutex::default(), spawned: Mutex::default(), lock: ReentrantLock::new(seed) }
    }

    pub(super) fn is_any_ready(&self) -> bool {
        !crate::sync::lock(&self.ready).entries.is_empty()
    }

    /// Completes when a task has to be polled.
    pub(super) async fn woken(&self) {
        poll_fn(|cx| {
            let waker = cx.waker().clone();
            let (is_ready, before) = {
                let mut ready = crate::sync::lock(&self.ready);
                (!ready.entries.is_empty(), ready.waker.replace(waker))
            };
            drop(before);
            if is_ready { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn start(self: &Arc<Self>, future: BoxTask) -> Arc<TaskCell> {
        // A budget would be shared with the tokio task that moves the clock.
        let future: BoxTask = Box::pin(tokio::task::unconstrained(future));
        let entry = Arc::new(TaskCell {
            future: Mutex::new(Some(future)),
            queued: AtomicBool::new(false),
            missed: AtomicBool::new(false),
            tasks: Arc::downgrade(self),
        });
        crate::sync::lock(&self.spawned).add(&entry);
        entry.wake_by_ref();
        entry
    }

    pub(super) fn spawn<F>(self: &Arc<Self>, future: F) -> Task<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let slot = Arc::new(Mutex::new(OutputSlot { output: None, waker: None }));
        let filled = Arc::clone(&slot);
        self.start(Box::pin(async move {
            let output = future.await;
            let waker = {
                let mut slot = crate::sync::lock(&filled);
                slot.output = Some(output);
                slot.waker.take()
            };
            if let Some(waker) = waker {
                crate::sync::wake(waker);
            }
        }));
        Task { slot }
    }

    /// Polls the woken tasks until none is left. The caller holds the lock.
    pub(super) fn run_ready(&self) {
        for polls in 0.. {
            let Some(entry) = crate::sync::lock(&self.ready).entries.pop_front() else { return };
            assert!(polls < MAX_POLLS, "a task of the clock wakes itself for ever");
            entry.poll();
        }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        let spawned = std::mem::take(&mut *crate::sync::lock(&self.spawned));
        spawned.drop_all();
    }
}

impl TaskCell {
    fn poll(self: Arc<Self>) {
        self.queued.store(false, Ordering::SeqCst);
        let Some(mut future) = crate::sync::lock(&self.future).take() else {
            self.missed.store(true, Ordering::SeqCst);
            return;
        };
        let waker = Waker::from(Arc::clone(&self));
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            *crate::sync::lock(&self.future) = Some(future);
            if self.missed.swap(false, Ordering::SeqCst) {
                self.wake();
            }
        }
    }
}

impl Wake for TaskCell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(tasks) = self.tasks.upgrade()
            && !self.queued.swap(true, Ordering::SeqCst)
        {
            let waiting = {
                let mut ready = crate::sync::lock(&tasks.ready);
                ready.entries.push_back(Arc::clone(self));
                ready.waker.take()
            };
            if let Some(waker) = waiting {
                crate::sync::wake(waker);
            }
        }
    }
}

impl fmt::Debug for TaskCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskCell").field("queued", &self.queued).finish_non_exhaustive()
    }
}

/// A task of a clock: see [`ManualClock::spawn`](super::ManualClock::spawn).
///
/// Await it on any runtime, or take its output. Dropping it leaves the task running.
#[must_use = "ask it for the output of the task, or drop it on purpose"]
pub struct Task<T> {
    slot: Arc<Mutex<OutputSlot<T>>>,
}

struct OutputSlot<T> {
    output: Option<T>,
    waker: Option<Waker>,
}

impl<T> Task<T> {
    /// Returns whether the output is ready.
    pub fn is_finished(&self) -> bool {
        crate::sync::lock(&self.slot).output.is_some()
    }

    /// Returns the output, once, if the task is done.
    pub fn take(&mut self) -> Option<T> {
        crate::sync::lock(&self.slot).output.take()
    }
}

/// # Cancel safety
///
/// Safe: the task continues, and the output stays until it is taken.
impl<T> Future for Task<T> {
    type Output = T;

    /// Pending forever if the output was taken or the task panicked.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let mut slot = crate::sync::lock(&self.slot);
        if let Some(output) = slot.output.take() {
            return Poll::Ready(output);
        }
        let before = slot.waker.replace(cx.waker().clone());
        drop(slot);
        drop(before);
        Poll::Pending
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("is_finished", &self.is_finished()).finish()
    }
}

/// Runs a manager's own tasks while its clock is moved: see
/// [`ManualClock::spawner`](super::ManualClock::spawner). It serves one manager: its drop drops the
/// tasks, as the drop of the clock does.
#[derive(Debug)]
pub struct ManualSpawner {
    tasks: Weak<Tasks>,
    spawned: Mutex<SpawnedTasks>,
}

impl ManualSpawner {
    pub(super) fn new(tasks: Weak<Tasks>) -> Self {
        Self { tasks, spawned: Mutex::default() }
    }
}

impl Spawner for ManualSpawner {
    fn spawn(&self, task: BoxTask) {
        let Some(tasks) = self.tasks.upgrade() else { return };
        let entry = tasks.start(task);
        crate::sync::lock(&self.spawned).add(&entry);
    }

    /// Runs the task as a task of the clock, so time does not move while it blocks.
    fn spawn_blocking(&self, _name: &str, task: BoxTask) -> io::Result<()> {
        self.spawn(task);
        Ok(())
    }

    fn runs_jobs(&self) -> bool {
        true
    }
}

impl Drop for ManualSpawner {
    fn drop(&mut self) {
        let spawned = std::mem::take(&mut *crate::sync::lock(&self.spawned));
        spawned.drop_all();
    }
}

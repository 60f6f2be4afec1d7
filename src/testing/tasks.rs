use std::{
    collections::VecDeque,
    fmt,
    future::{Future, poll_fn},
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use super::turn::Turn;
use crate::lock::Spawner;

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// More polls than this while the clock stands still come of a task that wakes itself for ever.
const MOST_POLLS: usize = 1_000_000;

/// Tasks that run while the clock is moved or settled, on the thread that does so.
#[derive(Debug)]
pub(super) struct Tasks {
    ready: Mutex<Ready>,
    pub(super) turn: Turn,
}

#[derive(Debug, Default)]
struct Ready {
    entries: VecDeque<Arc<Entry>>,
    /// Who waits for an entry.
    waker: Option<Waker>,
}

struct Entry {
    /// Absent while it is polled, and once it is done.
    future: Mutex<Option<Running>>,
    queued: AtomicBool,
    /// Was to be polled while it was polled further up the stack.
    missed: AtomicBool,
    tasks: Weak<Tasks>,
}

impl Tasks {
    pub(super) fn new(seed: u64) -> Self {
        Self { ready: Mutex::default(), turn: Turn::new(seed) }
    }

    pub(super) fn is_any_ready(&self) -> bool {
        !crate::sync::lock(&self.ready).entries.is_empty()
    }

    /// Completes when a task is to be polled.
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

    fn start(self: &Arc<Self>, future: Running) -> Arc<Entry> {
        // Or the budget of the tokio task that moves the clock would be charged.
        let future: Running = Box::pin(tokio::task::unconstrained(future));
        let entry = Arc::new(Entry {
            future: Mutex::new(Some(future)),
            queued: AtomicBool::new(false),
            missed: AtomicBool::new(false),
            tasks: Arc::downgrade(self),
        });
        entry.wake_by_ref();
        entry
    }

    pub(super) fn spawn<F>(self: &Arc<Self>, future: F) -> Task<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let slot = Arc::new(Mutex::new(Slot { output: None, waker: None }));
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

    /// Polls what was woken until nothing is. The caller has the turn.
    pub(super) fn run_ready(&self) {
        for polls in 0.. {
            let Some(entry) = crate::sync::lock(&self.ready).entries.pop_front() else { return };
            assert!(polls < MOST_POLLS, "a task of the clock wakes itself for ever");
            entry.poll();
        }
    }
}

impl Entry {
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

impl Wake for Entry {
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

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("queued", &self.queued).finish_non_exhaustive()
    }
}

/// A task of a clock: see [`ManualClock::spawn`](super::ManualClock::spawn).
///
/// It can be awaited, on any runtime, or asked for its output. Dropping it leaves the task running.
#[must_use = "ask it for the output of the task, or drop it on purpose"]
pub struct Task<T> {
    slot: Arc<Mutex<Slot<T>>>,
}

struct Slot<T> {
    output: Option<T>,
    waker: Option<Waker>,
}

impl<T> Task<T> {
    /// Whether the output is there to be taken.
    pub fn is_finished(&self) -> bool {
        crate::sync::lock(&self.slot).output.is_some()
    }

    /// The output, once, if the task is done.
    pub fn take(&mut self) -> Option<T> {
        crate::sync::lock(&self.slot).output.take()
    }
}

/// # Cancel safety
///
/// Safe: the task goes on, and the output stays until it is taken.
impl<T> Future for Task<T> {
    type Output = T;

    /// Pending for ever where the output was taken, or where the task panicked.
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
/// [`ManualClock::spawner`](super::ManualClock::spawner). To be given to one manager; when the
/// manager is gone, so are its tasks.
#[derive(Debug)]
pub struct ManualSpawner {
    tasks: Arc<Tasks>,
    spawned: Mutex<Vec<Weak<Entry>>>,
}

impl ManualSpawner {
    pub(super) fn new(tasks: Arc<Tasks>) -> Self {
        Self { tasks, spawned: Mutex::default() }
    }
}

impl Spawner for ManualSpawner {
    fn spawn(&self, task: Running) {
        let entry = self.tasks.start(task);
        let mut spawned = crate::sync::lock(&self.spawned);
        spawned.retain(|entry| entry.strong_count() > 0);
        spawned.push(Arc::downgrade(&entry));
    }

    /// Runs it as a task of the clock: while it blocks, time stands still.
    fn spawn_blocking(&self, _name: &str, task: Running) -> io::Result<()> {
        self.spawn(task);
        Ok(())
    }

    fn runs_jobs(&self) -> bool {
        true
    }
}

impl Drop for ManualSpawner {
    /// The tasks hold the clock, and the clock's waits hold the tasks.
    fn drop(&mut self) {
        let spawned = std::mem::take(&mut *crate::sync::lock(&self.spawned));
        for entry in spawned {
            if let Some(entry) = entry.upgrade() {
                let future = crate::sync::lock(&entry.future).take();
                drop(future);
            }
        }
    }
}

//! The timers of a manager: one ordered set, and the task that fires them.

use std::{
    collections::BTreeMap,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use super::{Clock, Timestamp, clock::MAX_TIMER};
use crate::sync::{
    Mutex, Notify,
    atomic::{AtomicU64, Ordering},
};

/// Maximum number of entries that fire before other tasks run, such as the tasks that write to the
/// nodes. With 100,000 locks, a thousand renewals may be due at a time. A renewal takes some 30 µs.
const BATCH: usize = 32;

/// Time after which an entry that is due has to have fired; otherwise the task of [`Timers::run`] is taken
/// for blocked.
const OVERDUE: Duration = Duration::from_millis(50);

/// Time to wake two threads on an idle machine, one after the other: the one of [`Timers::run`], and the one that
/// polls the work.
const WAKE_UPS: Duration = Duration::from_millis(1);

/// The wakers of renewals, deadlines and retries, ordered by time.
///
/// One task ([`Timers::run`]) sleeps until the earliest entry; a held lock costs an entry and no task.
#[derive(Debug)]
pub(crate) struct Timers {
    clock: Arc<dyn Clock>,
    state: Mutex<TimerTable>,
    /// The time at which `run` reads the entries next, in nanoseconds. An entry that is due later
    /// needs no notification.
    armed: AtomicU64,
    changed: Notify,
    /// See [`Clock::granularity`].
    granularity: Duration,
}

#[derive(Debug, Default)]
struct TimerTable {
    entries: BTreeMap<TimerKey, Waker>,
    next_id: u64,
    closed: bool,
}

/// Whether the inserted entry is due before [`Timers::run`] reads the entries next.
#[derive(Debug, Default)]
#[must_use = "the entry may fire late without it"]
pub(crate) struct Nudge(bool);

/// The key of an entry; later keys are due later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimerKey {
    pub(crate) at: Timestamp,
    id: u64,
}

impl Timers {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let granularity = clock.granularity();
        Self {
            clock,
            state: Mutex::default(),
            armed: AtomicU64::new(0),
            changed: Notify::new(),
            granularity,
        }
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Returns how long before a deadline a timer must be due for the woken task to be polled in
    /// time on an idle machine. Zero if the clock's waits end exactly on time.
    pub(crate) fn lead(&self) -> Duration {
        if self.granularity.is_zero() { Duration::ZERO } else { self.granularity + WAKE_UPS }
    }

    /// Wakes `waker` once, at or soon after `at`. Must not be called under a mutex, as it may wake the
    /// task of [`run`](Self::run).
    pub(crate) fn insert(&self, at: Timestamp, waker: Waker) -> TimerKey {
        let (key, nudge) = self.insert_locked(at, waker);
        self.nudge(nudge);
        key
    }

    /// Like [`insert`](Self::insert), for callers that hold a mutex; they call
    /// [`nudge`](Self::nudge) after they unlocked it.
    pub(crate) fn insert_locked(&self, at: Timestamp, waker: Waker) -> (TimerKey, Nudge) {
        let key = {
            let mut state = self.lock();
            let key = TimerKey { at, id: state.next_id };
            state.next_id += 1;
            state.entries.insert(key, waker);
            key
        };
        (key, Nudge(at.as_nanos() < self.armed.load(Ordering::SeqCst)))
    }

    /// Wakes [`run`](Self::run), if the new entry is due before it reads the entries next.
    pub(crate) fn nudge(&self, Nudge(is_early): Nudge) {
        if is_early {
            crate::sync::assert_unlocked();
            self.changed.notify_one();
        }
    }

    /// Removes an entry; has no effect if it has fired.
    pub(crate) fn remove(&self, key: TimerKey) {
        let waker = self.lock().entries.remove(&key);
        drop(waker);
    }

    /// Replaces the waker of an entry. Returns false if it has fired.
    fn rewake(&self, key: TimerKey, waker: &Waker) -> bool {
        // A waker is user code, so it is cloned before the mutex is locked, and dropped after.
        let waker = crate::sync::clone_waker(waker);
        let mut state = self.lock();
        let Some(entry) = state.entries.get_mut(&key) else { return false };
        let replaced = std::mem::replace(entry, waker);
        drop(state);
        drop(replaced);
        true
    }

    pub(crate) fn sleep_until(self: &Arc<Self>, at: Timestamp) -> Sleep {
        Sleep { timers: Arc::clone(self), at, key: None }
    }

    /// Fires every entry now, due or not.
    pub(crate) fn wake_all(&self) {
        let entries = std::mem::take(&mut self.lock().entries);
        wake_each(entries.into_values());
    }

    /// Fires entries that should have fired, as the task of [`run`](Self::run) does not: the runtime of the
    /// manager's tasks is blocked, or not driven. Returns the time until the next call.
    pub(crate) fn fire_overdue(&self) -> Duration {
        let now = self.clock.now();
        let mut overdue = Vec::new();
        let next = {
            let mut state = self.lock();
            while overdue.len() < BATCH
                && let Some(entry) = state.entries.first_entry()
                && entry.key().at + OVERDUE <= now
            {
                overdue.push(entry.remove());
            }
            state.entries.first_key_value().map(|(key, _)| key.at + OVERDUE)
        };
        wake_each(overdue.into_iter());
        let next = next.map_or(MAX_TIMER, |next| next.saturating_duration_since(now));
        next.min(MAX_TIMER)
    }

    /// Fires entries until [`close`](Self::close).
    pub(crate) async fn run(self: Arc<Self>) {
        let mut due = Vec::new();
        loop {
            // Set before the entries are read, so that an entry that is inserted in between
            // notifies.
            self.armed.store(u64::MAX, Ordering::SeqCst);
            let now = self.clock.now();
            let earliest = {
                let mut state = self.lock();
                if state.closed {
                    return;
                }
                while due.len() < BATCH
                    && let Some(entry) = state.entries.first_entry()
                    && entry.key().at <= now
                {
                    due.push(entry.remove());
                }
                state.entries.first_key_value().map(|(key, _)| key.at)
            };
            if !due.is_empty() {
                wake_each(due.drain(..));
                // More entries may be due by now, repeatedly; the operations that they send have to
                // be written meanwhile.
                let_others_run().await;
                continue;
            }
            let Some(earliest) = earliest else {
                self.changed.notified().await;
                continue;
            };
            self.armed.store(earliest.as_nanos(), Ordering::SeqCst);
            let notified = self.changed.notified();
            if self.lock().entries.first_key_value().is_some_and(|(key, _)| key.at < earliest) {
                continue;
            }
            let until = if self.granularity.is_zero() {
                earliest
            } else {
                // A short wait, as timers do not advance while the machine is suspended.
                earliest.min(now + MAX_TIMER)
            };
            tokio::select! {
                biased;
                () = notified => {}
                () = self.clock.wait(until) => {}
            }
        }
    }

    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    #[cfg(all(test, feature = "testing", feature = "scheduler"))]
    pub(crate) fn len(&self) -> usize {
        self.lock().entries.len()
    }

    fn lock(&self) -> crate::sync::Guard<'_, TimerTable> {
        crate::sync::lock(&self.state)
    }
}

/// Pending once. `tokio::task::yield_now` would need the runtime of the thread, which may not be
/// the one that polls.
async fn let_others_run() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Wakes all wakers, even if one of them panics.
fn wake_each(wakers: impl Iterator<Item = Waker>) {
    for waker in wakers {
        let _ = catch_unwind(AssertUnwindSafe(|| crate::sync::wake(waker)));
    }
}

/// Completes at or after a moment. The task that awaits it needs no runtime.
#[derive(Debug)]
pub(crate) struct Sleep {
    timers: Arc<Timers>,
    at: Timestamp,
    key: Option<TimerKey>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.timers.clock.now() >= self.at {
            return Poll::Ready(());
        }
        let registered = self.key.is_some_and(|key| self.timers.rewake(key, cx.waker()));
        if !registered {
            self.key = Some(self.timers.insert(self.at, crate::sync::clone_waker(cx.waker())));
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.timers.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::time::SystemClock;

    fn timers() -> Arc<Timers> {
        Arc::new(Timers::new(Arc::new(SystemClock::new())))
    }

    #[tokio::test]
    async fn sleeps_end_in_order() {
        let timers = timers();
        let task = tokio::spawn(Arc::clone(&timers).run());
        let now = timers.clock().now();
        let order = Arc::new(Mutex::new(Vec::new()));
        let sleeps = [30u64, 10, 20].map(|ms| {
            let (timers, order) = (Arc::clone(&timers), Arc::clone(&order));
            tokio::spawn(async move {
                timers.sleep_until(now + Duration::from_millis(ms)).await;
                assert!(timers.clock().now() >= now + Duration::from_millis(ms));
                order.lock().unwrap().push(ms);
            })
        });

        for sleep in sleeps {
            sleep.await.unwrap();
        }

        assert_eq!(*order.lock().unwrap(), [10, 20, 30]);

        timers.close();
        task.await.unwrap();
    }

    #[tokio::test]
    async fn dropped_sleep_leaves_no_entry() {
        let timers = timers();
        let far = timers.clock().now() + Duration::from_secs(3600);
        let mut sleep = Box::pin(timers.sleep_until(far));
        let polled = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        assert_eq!(timers.lock().entries.len(), 1);
        drop(sleep);
        assert!(timers.lock().entries.is_empty());
    }

    /// An entry that is due again as soon as it fires, like a renewal that is never written.
    struct Again {
        timers: Arc<Timers>,
        left: AtomicU64,
    }

    impl std::task::Wake for Again {
        fn wake(self: Arc<Self>) {
            if self.left.fetch_sub(1, Ordering::Relaxed) > 1 {
                let now = self.timers.clock().now();
                self.timers.clone().insert(now, Waker::from(self));
            }
        }
    }

    #[tokio::test]
    async fn other_tasks_run_between_batches() {
        const ENTRIES: u64 = 1_000;
        const TIMES: u64 = 10;
        let timers = timers();
        let again: Vec<_> = (0..ENTRIES)
            .map(|_| Arc::new(Again { timers: Arc::clone(&timers), left: AtomicU64::new(TIMES) }))
            .collect();
        let now = timers.clock().now();
        for entry in &again {
            timers.insert(now, Waker::from(Arc::clone(entry)));
        }
        let task = tokio::spawn(Arc::clone(&timers).run());
        let turns = tokio::spawn(async move {
            let mut turns = 0;
            while again.iter().any(|entry| entry.left.load(Ordering::Relaxed) > 0) {
                turns += 1;
                let_others_run().await;
            }
            turns
        });

        let turns = turns.await.unwrap();

        assert!(turns >= ENTRIES * TIMES / 32, "{turns} turns");

        timers.close();
        task.await.unwrap();
    }

    /// A task that its last waker drops, together with its sleep.
    struct SleepOwner {
        _sleep: Mutex<Sleep>,
    }

    impl std::task::Wake for SleepOwner {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn dropped_waker_may_drop_sleep() {
        let timers = timers();
        let far = timers.clock().now() + Duration::from_secs(3600);
        let sleep = || timers.sleep_until(far);
        let poll = |sleep: &mut Sleep, waker: &Waker| {
            let polled = Pin::new(sleep).poll(&mut Context::from_waker(waker));
            assert!(polled.is_pending());
        };
        let (mut first, mut second) = (sleep(), sleep());
        poll(&mut first, Waker::noop());
        let task = Waker::from(Arc::new(SleepOwner { _sleep: Mutex::new(first) }));
        poll(&mut second, &task);
        drop(task);

        poll(&mut second, Waker::noop());

        assert_eq!(timers.lock().entries.len(), 1);
    }
}

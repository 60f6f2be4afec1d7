//! A value that is read at most once in a second, for all viewers.
//!
//! One read at a time is under way. It is begun by the first request that finds no fresh value; the others wait
//! for its end. All transitions are made within the watch channel that publishes the value:
//!
//! ```text
//!           begin                   publish the whole value
//!   idle ──────────► reading ─────────────────────────────────► idle, with a fresh value
//!                    │   ▲  │ the read panics, or its runtime ends
//!                    └───┘  └─────────────────────────────────► idle, with the old value
//!        publish a partial value
//! ```

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

/// Minimum time between the beginnings of two snapshots.
const FRESH_TIME: Duration = Duration::from_secs(1);
/// Lifetime of a snapshot, as a multiple of the time that its read took: a tenth of the time is spent reading.
pub(super) const RESTING: u32 = 10;
/// Maximum wait of a request while no snapshot has been published.
const FIRST_WAIT_LIMIT: Duration = Duration::from_secs(2);
/// Maximum wait of a request for a snapshot that replaces an older one.
const WAIT_LIMIT: Duration = Duration::from_millis(500);
/// Maximum number of names whose snapshots are kept.
const MAX_NAMES: usize = 256;

/// The begin of a snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SnapshotStart {
    /// The number of the snapshot, from 1: the next snapshot of the same kind has the next one.
    pub(crate) number: u64,
    /// The begin by the wall clock of this process.
    pub(crate) at: SystemTime,
    pub(crate) begun: Instant,
    /// Number of changes by viewers before the begin.
    changes: u64,
}

/// A value, and when it was read.
#[derive(Debug)]
pub(crate) struct FleetSnapshot<T> {
    pub(crate) value: T,
    pub(crate) start: SnapshotStart,
    pub(crate) took: Duration,
    /// The value is the beginning of a listing that is still being read.
    pub(crate) is_partial: bool,
}

impl<T> FleetSnapshot<T> {
    pub(crate) fn age(&self) -> Duration {
        self.start.begun.elapsed()
    }
}

/// The latest snapshot, and the read that will replace it.
#[derive(Debug)]
struct CacheState<T> {
    latest: Option<Arc<FleetSnapshot<T>>>,
    /// The number of the snapshot that is being read.
    reading: Option<u64>,
    /// Number of reads that were begun.
    begun: u64,
    /// Number of changes that viewers have made: a snapshot whose read began before the latest change is outdated.
    changes: u64,
}

impl<T> CacheState<T> {
    fn fresh(&self, rest: u32) -> Option<&Arc<FleetSnapshot<T>>> {
        self.latest.as_ref().filter(|snapshot| {
            !snapshot.is_partial
                && snapshot.start.changes == self.changes
                && snapshot.age() < FRESH_TIME.max(snapshot.took * rest)
        })
    }

    /// Begins a read if no snapshot is fresh and none is being read.
    fn begin(&mut self, rest: u32) -> Option<SnapshotStart> {
        if self.reading.is_some() || self.fresh(rest).is_some() {
            return None;
        }
        self.begun += 1;
        self.reading = Some(self.begun);
        let (number, changes) = (self.begun, self.changes);
        Some(SnapshotStart { number, at: SystemTime::now(), begun: Instant::now(), changes })
    }

    fn publish(&mut self, snapshot: FleetSnapshot<T>) {
        assert_eq!(self.reading, Some(snapshot.start.number), "only the read under way publishes");
        if !snapshot.is_partial {
            self.reading = None;
        }
        self.latest = Some(Arc::new(snapshot));
    }
}

/// A value that is read on demand.
#[derive(Debug)]
pub(crate) struct Cached<T> {
    state: watch::Sender<CacheState<T>>,
    /// A snapshot is kept for this multiple of the time that its read took.
    rest: u32,
}

impl<T: Send + Sync + 'static> Cached<T> {
    /// `rest` is [`RESTING`], or zero for reads that pause by themselves, as
    /// [`Redlock::locks`](tower_redlock::Redlock::locks) does.
    pub(super) fn new(rest: u32) -> Self {
        let state = CacheState { latest: None, reading: None, begun: 0, changes: 0 };
        Self { state: watch::Sender::new(state), rest }
    }

    /// Returns a fresh snapshot, or reads one and waits for it, for a limited time. The read continues if the
    /// caller is dropped. `None`: no snapshot has been published.
    pub(crate) async fn get<R, F>(self: &Arc<Self>, read: R) -> Option<Arc<FleetSnapshot<T>>>
    where
        R: Fn(Arc<Reading<T>>) -> F,
        F: Future<Output = T> + Send + 'static,
    {
        let mut state = self.state.subscribe();
        let has_any = state.borrow().latest.is_some();
        let deadline = Instant::now() + if has_any { WAIT_LIMIT } else { FIRST_WAIT_LIMIT };
        loop {
            if let Some(fresh) = state.borrow_and_update().fresh(self.rest) {
                return Some(Arc::clone(fresh));
            }
            if let Some(reading) = self.begin() {
                let reading = Arc::new(reading);
                let value = read(Arc::clone(&reading));
                tokio::spawn(async move { reading.publish(value.await, false) });
            }
            if timeout_at(deadline, state.changed()).await.is_err() {
                return state.borrow().latest.clone();
            }
        }
    }

    fn begin(self: &Arc<Self>) -> Option<Reading<T>> {
        let mut start = None;
        self.state.send_if_modified(|state| {
            start = state.begin(self.rest);
            false
        });
        Some(Reading { cached: Arc::clone(self), start: start? })
    }

    /// Makes the latest snapshot, and one that is being read, an outdated one.
    pub(super) fn outdate(&self) {
        self.state.send_if_modified(|state| {
            state.changes += 1;
            false
        });
    }

    fn is_in_use(&self) -> bool {
        let state = self.state.borrow();
        state.reading.is_some()
            || state.latest.as_ref().is_some_and(|snapshot| snapshot.age() < 10 * FRESH_TIME)
    }
}

/// The read under way. The next one may begin once this is dropped, also by a panic or the end of a runtime.
#[derive(Debug)]
pub(crate) struct Reading<T> {
    cached: Arc<Cached<T>>,
    start: SnapshotStart,
}

impl<T> Reading<T> {
    /// Returns whether the viewers have no whole snapshot.
    pub(super) fn is_wanted(&self) -> bool {
        let state = self.cached.state.borrow();
        state.latest.as_ref().is_none_or(|snapshot| snapshot.is_partial)
    }

    /// Shows what was read so far, if there is no whole snapshot.
    pub(super) fn show(&self, value: T) {
        if self.is_wanted() {
            self.publish(value, true);
        }
    }

    fn publish(&self, value: T, is_partial: bool) {
        let snapshot = FleetSnapshot {
            value,
            start: self.start,
            took: self.start.begun.elapsed(),
            is_partial,
        };
        self.cached.state.send_modify(|state| state.publish(snapshot));
    }
}

impl<T> Drop for Reading<T> {
    fn drop(&mut self) {
        // Without a hint to waiting requests: each would read again what has just failed.
        self.cached.state.send_if_modified(|state| {
            state.reading = state.reading.filter(|reading| *reading != self.start.number);
            false
        });
    }
}

/// The latest snapshots of single names, or pages.
#[derive(Debug)]
pub(crate) struct CachedByName<T>(Mutex<HashMap<String, Arc<Cached<T>>>>);

impl<T> Default for CachedByName<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Send + Sync + 'static> CachedByName<T> {
    fn names(&self) -> MutexGuard<'_, HashMap<String, Arc<Cached<T>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn of(&self, name: &str) -> Arc<Cached<T>> {
        let mut names = self.names();
        if let Some(cached) = names.get(name) {
            return Arc::clone(cached);
        }
        if names.len() >= MAX_NAMES {
            names.retain(|_, cached| cached.is_in_use());
        }
        if names.len() >= MAX_NAMES {
            names.clear();
        }
        debug_assert!(names.len() < MAX_NAMES);
        Arc::clone(names.entry(name.to_owned()).or_insert_with(|| Arc::new(Cached::new(RESTING))))
    }

    pub(super) fn outdate_all(&self) {
        self.names().values().for_each(|cached| cached.outdate());
    }

    pub(super) fn outdate(&self, name: &str) {
        if let Some(cached) = self.names().get(name) {
            cached.outdate();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures_util::future::join_all;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn viewers_share_a_snapshot() {
        let cached = Arc::new(Cached::new(RESTING));
        let snapshot = || cached.get(|_| async { 7 });
        let snapshots = join_all((0..100).map(|_| snapshot())).await;
        assert!(snapshots.iter().all(|snapshot| snapshot.as_ref().unwrap().start.number == 1));
        tokio::time::advance(999 * MS).await;
        assert_eq!(snapshot().await.unwrap().start.number, 1);
        tokio::time::advance(MS).await;
        assert_eq!(snapshot().await.unwrap().start.number, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn long_reads_are_rarer() {
        let cached = Arc::new(Cached::new(RESTING));
        let snapshot = || {
            cached.get(|partial| async move {
                partial.show(1);
                tokio::time::sleep(5_000 * MS).await;
                2
            })
        };
        let first = snapshot().await.unwrap();
        assert_eq!((first.value, first.is_partial, first.start.number), (1, true, 1));
        tokio::time::sleep(5_000 * MS).await;
        let whole = snapshot().await.unwrap();
        assert_eq!((whole.value, whole.is_partial, whole.start.number), (2, false, 1));
        tokio::time::sleep(44_000 * MS).await;
        assert_eq!(snapshot().await.unwrap().start.number, 1);
        tokio::time::sleep(1_500 * MS).await;
        // The old one is shown until the next is read.
        assert_eq!(snapshot().await.unwrap().start.number, 1);
        tokio::time::sleep(5_000 * MS).await;
        assert_eq!(snapshot().await.unwrap().start.number, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn snapshot_before_a_change_is_read_again() {
        let cached = Arc::new(Cached::new(0));
        let reads = Arc::<AtomicU64>::default();
        let snapshot = || {
            let reads = Arc::clone(&reads);
            cached.get(move |_| {
                let reads = Arc::clone(&reads);
                async move {
                    tokio::time::sleep(100 * MS).await;
                    reads.fetch_add(1, Ordering::Relaxed)
                }
            })
        };
        let (viewer, ()) = tokio::join!(snapshot(), async {
            tokio::time::sleep(50 * MS).await;
            cached.outdate();
        });
        assert_eq!(viewer.unwrap().value, 1, "the second one is after the change");
        assert_eq!(snapshot().await.unwrap().value, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn panic_does_not_end_reads() {
        let cached = Arc::new(Cached::new(RESTING));
        assert!(cached.get(|_| async { panic!("broken") }).await.is_none());
        assert_eq!(cached.get(|_| async { 1 }).await.unwrap().value, 1);
    }
}

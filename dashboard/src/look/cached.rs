//! A value that is read at most once in a second, whoever asks.

use std::{
    collections::HashMap,
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

/// Minimum time between the beginnings of two looks.
const FRESH: Duration = Duration::from_secs(1);
/// Maximum wait of a request without any look so far.
const FIRST_PATIENCE: Duration = Duration::from_secs(2);
/// Maximum wait of a request for a look that replaces an older one.
const PATIENCE: Duration = Duration::from_millis(500);
/// Maximum number of names whose looks are kept.
const MAX_NAMES: usize = 256;

/// How long a look is kept, as a multiple of the time that it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// It pauses by itself: a listing by [`Redlock::locks`](tower_redlock::Redlock::locks) or of jobs.
    Paused,
    /// At most a tenth of the time is spent reading.
    Tenth,
}

/// A value, and when it was read.
#[derive(Debug)]
pub(crate) struct Look<T> {
    pub(crate) value: T,
    /// Which look of its kind it is, from 1.
    pub(crate) number: u64,
    /// When it was begun, by the wall clock of this process.
    pub(crate) at: SystemTime,
    pub(crate) took: Duration,
    /// The listing continues: this is its beginning.
    pub(crate) is_partial: bool,
    begun: Instant,
    /// The number of changes before it was begun.
    changes: u64,
}

impl<T> Look<T> {
    pub(crate) fn age(&self) -> Duration {
        self.begun.elapsed()
    }
}

/// The latest look.
#[derive(Debug)]
pub(crate) struct Cached<T> {
    latest: watch::Sender<Option<Arc<Look<T>>>>,
    pace: Pace,
    is_reading: AtomicBool,
    number: AtomicU64,
    /// Number of changes that viewers have made: an older look is outdated.
    changes: AtomicU64,
}

impl<T: Send + Sync + 'static> Cached<T> {
    pub(super) fn new(pace: Pace) -> Self {
        Self {
            latest: watch::Sender::new(None),
            pace,
            is_reading: AtomicBool::new(false),
            number: AtomicU64::new(0),
            changes: AtomicU64::new(0),
        }
    }

    /// Returns a fresh look, or reads one and waits for it, for a limited time. The read continues if the
    /// caller is dropped. `None`: there is none yet.
    pub(crate) async fn look<R, F>(self: &Arc<Self>, read: R) -> Option<Arc<Look<T>>>
    where
        R: Fn(Partial<T>) -> F,
        F: Future<Output = T> + Send + 'static,
    {
        let mut latest = self.latest.subscribe();
        let has_any = latest.borrow().is_some();
        let deadline = Instant::now() + if has_any { PATIENCE } else { FIRST_PATIENCE };
        loop {
            // Marked as seen first: what is published from here on ends the wait below.
            latest.mark_unchanged();
            if !self.is_reading.swap(true, Ordering::AcqRel) {
                let reading = Reading(Arc::clone(self));
                if self.fresh().is_some() {
                    drop(reading);
                } else {
                    self.start(reading, &read);
                }
            }
            if let Some(fresh) = self.fresh() {
                return Some(fresh);
            }
            if timeout_at(deadline, latest.changed()).await.is_err() {
                return latest.borrow().clone();
            }
        }
    }

    fn fresh(&self) -> Option<Arc<Look<T>>> {
        let kept = |look: &Look<T>| match self.pace {
            Pace::Paused => FRESH,
            Pace::Tenth => FRESH.max(look.took * 10),
        };
        let changes = self.changes.load(Ordering::Acquire);
        let latest = self.latest.borrow();
        let is_fresh = |look: &&Arc<Look<T>>| {
            !look.is_partial && look.changes == changes && look.age() < kept(look)
        };
        latest.as_ref().filter(is_fresh).cloned()
    }

    fn start<R, F>(self: &Arc<Self>, reading: Reading<T>, read: &R)
    where
        R: Fn(Partial<T>) -> F,
        F: Future<Output = T> + Send + 'static,
    {
        let partial = Partial {
            cached: Arc::clone(self),
            number: self.number.fetch_add(1, Ordering::Relaxed) + 1,
            changes: self.changes.load(Ordering::Acquire),
            at: SystemTime::now(),
            begun: Instant::now(),
        };
        let value = read(partial.clone());
        tokio::spawn(async move {
            let value = value.await;
            partial.publish(value, false);
            let cached = Arc::clone(&reading.0);
            drop(reading);
            if cached.fresh().is_none() {
                // One of those that wait has to read again.
                cached.latest.send_modify(|_| {});
            }
        });
    }

    /// Makes the latest look, and one that is under way, an outdated one.
    pub(super) fn outdate(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    fn is_in_use(&self) -> bool {
        let latest = self.latest.borrow();
        self.is_reading.load(Ordering::Acquire)
            || latest.as_ref().is_some_and(|look| look.age() < 10 * FRESH)
    }
}

/// The right to read, given back also if reading panics or its runtime ends.
struct Reading<T>(Arc<Cached<T>>);

impl<T> Drop for Reading<T> {
    fn drop(&mut self) {
        self.0.is_reading.store(false, Ordering::Release);
    }
}

/// Shows what was read so far, while there is nothing better.
#[derive(Debug)]
pub(crate) struct Partial<T> {
    cached: Arc<Cached<T>>,
    number: u64,
    changes: u64,
    at: SystemTime,
    begun: Instant,
}

impl<T> Clone for Partial<T> {
    fn clone(&self) -> Self {
        Self { cached: Arc::clone(&self.cached), ..*self }
    }
}

impl<T> Partial<T> {
    /// Whether the viewers have nothing whole.
    pub(crate) fn is_wanted(&self) -> bool {
        self.cached.latest.borrow().as_ref().is_none_or(|look| look.is_partial)
    }

    pub(crate) fn show(&self, value: T) {
        if self.is_wanted() {
            self.publish(value, true);
        }
    }

    fn publish(&self, value: T, is_partial: bool) {
        let Self { number, changes, at, begun, .. } = *self;
        let look = Look { value, number, at, took: begun.elapsed(), is_partial, begun, changes };
        self.cached.latest.send_replace(Some(Arc::new(look)));
    }
}

/// The latest looks at single names, or pages.
#[derive(Debug)]
pub(crate) struct CachedByName<T>(Mutex<HashMap<String, Arc<Cached<T>>>>);

impl<T> Default for CachedByName<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Send + Sync + 'static> CachedByName<T> {
    pub(super) fn of(&self, name: &str) -> Arc<Cached<T>> {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) = names.get(name) {
            return Arc::clone(cached);
        }
        if names.len() >= MAX_NAMES {
            names.retain(|_, cached| cached.is_in_use());
        }
        if names.len() >= MAX_NAMES {
            names.clear();
        }
        let new = || Arc::new(Cached::new(Pace::Tenth));
        Arc::clone(names.entry(name.to_owned()).or_insert_with(new))
    }

    pub(super) fn outdate_all(&self) {
        for cached in self.0.lock().unwrap_or_else(PoisonError::into_inner).values() {
            cached.outdate();
        }
    }

    pub(super) fn outdate(&self, name: &str) {
        if let Some(cached) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name) {
            cached.outdate();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn viewers_share_a_look() {
        let cached = Arc::new(Cached::new(Pace::Tenth));
        let look = || cached.look(|_| async { 7 });
        let looks = join_all((0..100).map(|_| look())).await;
        assert!(looks.iter().all(|look| look.as_ref().unwrap().number == 1));
        tokio::time::advance(999 * MS).await;
        assert_eq!(look().await.unwrap().number, 1);
        tokio::time::advance(MS).await;
        assert_eq!(look().await.unwrap().number, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn long_looks_are_rarer() {
        let cached = Arc::new(Cached::new(Pace::Tenth));
        let look = || {
            cached.look(|partial| async move {
                partial.show(1);
                tokio::time::sleep(5_000 * MS).await;
                2
            })
        };
        let first = look().await.unwrap();
        assert_eq!((first.value, first.is_partial, first.number), (1, true, 1));
        tokio::time::sleep(5_000 * MS).await;
        let whole = look().await.unwrap();
        assert_eq!((whole.value, whole.is_partial, whole.number), (2, false, 1));
        tokio::time::sleep(44_000 * MS).await;
        assert_eq!(look().await.unwrap().number, 1);
        tokio::time::sleep(1_500 * MS).await;
        // The old one is shown until the next is read.
        assert_eq!(look().await.unwrap().number, 1);
        tokio::time::sleep(5_000 * MS).await;
        assert_eq!(look().await.unwrap().number, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn look_before_a_change_is_repeated() {
        let cached = Arc::new(Cached::new(Pace::Paused));
        let reads = Arc::<AtomicU64>::default();
        let look = || {
            let reads = Arc::clone(&reads);
            cached.look(move |_| {
                let reads = Arc::clone(&reads);
                async move {
                    tokio::time::sleep(100 * MS).await;
                    reads.fetch_add(1, Ordering::Relaxed)
                }
            })
        };
        let (viewer, ()) = tokio::join!(look(), async {
            tokio::time::sleep(50 * MS).await;
            cached.outdate();
        });
        assert_eq!(viewer.unwrap().value, 1, "the second one is after the change");
        assert_eq!(look().await.unwrap().value, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn panic_does_not_end_looks() {
        let cached = Arc::new(Cached::new(Pace::Tenth));
        assert!(cached.look(|_| async { panic!("broken") }).await.is_none());
        assert_eq!(cached.look(|_| async { 1 }).await.unwrap().value, 1);
    }
}

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
    time::{Instant, timeout},
};

/// Minimum age of a look before it is repeated.
const FRESH: Duration = Duration::from_secs(1);
/// Minimum age in the time that the look took: reading takes at most a tenth of the time.
const PAUSES: u32 = 9;
/// Maximum wait of a request without any look so far.
const FIRST_PATIENCE: Duration = Duration::from_secs(2);
/// Maximum wait of a request for a look that replaces an older one.
const PATIENCE: Duration = Duration::from_millis(500);
/// Maximum number of names whose looks are kept.
const MAX_NAMES: usize = 256;

/// A value, and when it was read.
#[derive(Debug)]
pub(crate) struct Look<T> {
    pub(crate) value: T,
    /// Which look of the process it is, from 1.
    pub(crate) number: u64,
    /// When it was begun, by the wall clock of this process.
    pub(crate) at: SystemTime,
    pub(crate) took: Duration,
    begun: Instant,
    /// Reading goes on: this is what was found so far.
    pub(crate) is_partial: bool,
}

impl<T> Look<T> {
    pub(crate) fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    fn is_fresh(&self) -> bool {
        !self.is_partial && self.age() < FRESH.max(self.took * PAUSES)
    }
}

/// The latest look.
#[derive(Debug)]
pub(crate) struct Cached<T> {
    latest: watch::Sender<Option<Arc<Look<T>>>>,
    is_reading: AtomicBool,
    number: AtomicU64,
    /// Nobody will see what is read.
    is_abandoned: AtomicBool,
}

impl<T> Default for Cached<T> {
    fn default() -> Self {
        let latest = watch::Sender::new(None);
        Self {
            latest,
            is_reading: AtomicBool::new(false),
            number: AtomicU64::new(0),
            is_abandoned: AtomicBool::new(false),
        }
    }
}

impl<T: Send + Sync + 'static> Cached<T> {
    /// Returns a fresh look, or starts to read one and waits for it, for a limited time. Reading goes on if
    /// the caller leaves. `None`: there is none yet.
    pub(crate) async fn look<R, F>(self: &Arc<Self>, read: R) -> Option<Arc<Look<T>>>
    where
        R: FnOnce(Partial<T>) -> F,
        F: Future<Output = T> + Send + 'static,
    {
        let latest = self.latest.borrow().clone();
        if latest.as_ref().is_some_and(|look| look.is_fresh()) {
            return latest;
        }
        let mut changes = self.latest.subscribe();
        if !self.is_reading.swap(true, Ordering::AcqRel) {
            // Before the first poll: a task that is dropped unpolled is over as well.
            let reading = Reading(Arc::clone(self));
            let partial = Partial {
                cached: Arc::clone(self),
                number: self.number.fetch_add(1, Ordering::Relaxed) + 1,
                at: SystemTime::now(),
                begun: Instant::now(),
            };
            let value = read(partial.clone());
            tokio::spawn(async move {
                let value = value.await;
                partial.publish(value, false);
                drop(reading);
            });
        }
        let patience = if latest.is_some() { PATIENCE } else { FIRST_PATIENCE };
        let is_fresh =
            |look: &Option<Arc<Look<T>>>| look.as_ref().is_some_and(|look| look.is_fresh());
        let _ = timeout(patience, changes.wait_for(is_fresh)).await;
        self.latest.borrow().clone()
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
    at: SystemTime,
    begun: Instant,
}

impl<T> Clone for Partial<T> {
    fn clone(&self) -> Self {
        Self { cached: Arc::clone(&self.cached), ..*self }
    }
}

impl<T> Partial<T> {
    pub(crate) fn is_abandoned(&self) -> bool {
        self.cached.is_abandoned.load(Ordering::Relaxed)
    }

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
        let Self { number, at, begun, .. } = *self;
        let look = Look { value, number, at, took: begun.elapsed(), begun, is_partial };
        self.cached.latest.send_replace(Some(Arc::new(look)));
    }
}

/// The latest looks at single names.
#[derive(Debug)]
pub(crate) struct CachedByName<T>(Mutex<HashMap<String, Arc<Cached<T>>>>);

impl<T> Default for CachedByName<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Send + Sync + 'static> CachedByName<T> {
    pub(crate) async fn look<R, F>(&self, name: &str, read: R) -> Option<Arc<Look<T>>>
    where
        R: FnOnce(Partial<T>) -> F,
        F: Future<Output = T> + Send + 'static,
    {
        let cached = self.cached(name);
        cached.look(read).await
    }

    fn cached(&self, name: &str) -> Arc<Cached<T>> {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) = names.get(name) {
            return Arc::clone(cached);
        }
        if names.len() >= MAX_NAMES {
            names.clear();
        }
        Arc::clone(names.entry(name.to_owned()).or_default())
    }

    /// Makes the next viewer read again; what is read just now may be outdated.
    pub(crate) fn forget(&self) {
        for (_, cached) in self.0.lock().unwrap_or_else(PoisonError::into_inner).drain() {
            cached.is_abandoned.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn viewers_share_a_look() {
        let cached = Arc::new(Cached::default());
        let look = || cached.look(|_| async { 7 });
        let looks = join_all((0..100).map(|_| look())).await;
        assert!(looks.iter().all(|look| look.as_ref().unwrap().number == 1));
        tokio::time::advance(FRESH - Duration::from_millis(1)).await;
        assert_eq!(look().await.unwrap().number, 1);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(look().await.unwrap().number, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn long_looks_are_rarer() {
        let cached = Arc::new(Cached::default());
        let look = || {
            cached.look(|partial| async move {
                partial.show(1);
                tokio::time::sleep(Duration::from_secs(5)).await;
                2
            })
        };
        let first = look().await.unwrap();
        assert_eq!((first.value, first.is_partial, first.number), (1, true, 1));
        tokio::time::sleep(Duration::from_secs(5)).await;
        let whole = look().await.unwrap();
        assert_eq!((whole.value, whole.is_partial, whole.number), (2, false, 1));
        tokio::time::sleep(Duration::from_secs(35)).await;
        assert_eq!(look().await.unwrap().number, 1);
        tokio::time::sleep(Duration::from_secs(6)).await;
        // The old one is shown until the next is read.
        assert_eq!(look().await.unwrap().number, 1);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(look().await.unwrap().number, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn panic_does_not_end_looks() {
        let cached = Arc::new(Cached::default());
        let broken = cached.look(|_| async { panic!("broken") });
        assert!(broken.await.is_none());
        assert_eq!(cached.look(|_| async { 1 }).await.unwrap().value, 1);
    }
}

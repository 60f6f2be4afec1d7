//! Records the manager's counts and events.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::Handle,
    time::{Instant, MissedTickBehavior, interval},
};
use tower_redlock::{
    Redlock,
    lock::{LockEvent, LockEventKind},
};

use super::{Contention, Holding, Holdings, NameWaits, Rates, RatesView, SeenAt, SeenHolder};
use crate::cache::{ShownLock, SnapshotStart};

/// Interval between samples of the counts.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);

/// What happened of late in this process.
pub(crate) struct Recent {
    redlock: Redlock,
    begun: Instant,
    records: Mutex<Records>,
    /// Whether a task samples the counts.
    is_sampled: AtomicBool,
}

#[derive(Debug)]
struct Records {
    rates: Rates,
    contention: Contention,
    holdings: Holdings,
}

impl Recent {
    /// Returns records that begin now.
    pub(crate) fn new(redlock: Redlock) -> Self {
        let rates = Rates::new(redlock.counts());
        let (contention, holdings) = (Contention::default(), Holdings::default());
        Self {
            redlock,
            begun: Instant::now(),
            records: Mutex::new(Records { rates, contention, holdings }),
            is_sampled: AtomicBool::new(false),
        }
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to sample the counts if no task does, and if there is a runtime. Each request calls it.
    pub(crate) fn start(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else { return };
        if !self.is_sampled.swap(true, Ordering::AcqRel) {
            runtime.spawn(sample_repeatedly(Arc::downgrade(self)));
        }
    }

    fn sample(&self) -> Duration {
        let at = self.begun.elapsed();
        let mut records = self.records();
        // Read under the mutex: counts that are older than the last sample would be counted again.
        let counts = self.redlock.counts();
        records.rates.sample(at, counts);
        at
    }

    /// Returns the time for which there are records.
    pub(crate) fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Returns the counts until now.
    pub(crate) fn rates(&self) -> RatesView {
        let at = self.sample();
        self.records().rates.view(at)
    }

    /// Returns the names that requests waited for in the last 15 minutes, in no order.
    pub(crate) fn contended(&self) -> Vec<(Arc<str>, NameWaits)> {
        self.records().contention.names(self.begun.elapsed())
    }

    /// Returns the holders of a name of late, the latest first.
    pub(crate) fn holdings(&self, name: &str) -> Vec<Holding> {
        self.records().holdings.of(name)
    }

    /// Records an event of the manager.
    pub(crate) fn note(&self, event: &LockEvent) {
        let Some(resource) = event.kind.resource() else { return };
        let (at, since, owner) = (event.at, self.begun.elapsed(), self.redlock.owner());
        let mut records = self.records();
        for name in resource.names() {
            let Records { contention, holdings, .. } = &mut *records;
            match &event.kind {
                LockEventKind::Granted { shared, token, waited, .. } => {
                    contention.add(since, name, *waited, true);
                    let (token, is_shared) = (token.get(), *shared);
                    let holder = SeenHolder { owner, token, is_shared, since: Some(at) };
                    holdings.granted(name, &holder, (at, since));
                }
                LockEventKind::Refused { waited, .. } => {
                    contention.add(since, name, *waited, false);
                }
                LockEventKind::Lost { .. } => holdings.lost(name, owner, at),
                _ => {}
            }
        }
    }

    /// Returns the time of a snapshot.
    fn time_of(&self, snapshot: SnapshotStart) -> SeenAt {
        (snapshot.at, snapshot.begun.saturating_duration_since(self.begun))
    }

    /// Records the holder in a snapshot of a lock; `None` if the lock was free.
    pub(crate) fn seen(&self, name: &str, shown: Option<&ShownLock>, snapshot: SnapshotStart) {
        let holders = shown.filter(|lock| lock.is_quorum).map(seen_holders).unwrap_or_default();
        self.records().holdings.seen(name, &holders, self.time_of(snapshot));
    }

    /// Records the holders in a listing, of the names whose holders are recorded.
    pub(crate) fn listed(&self, locks: &[ShownLock], snapshot: SnapshotStart) {
        let at = self.time_of(snapshot);
        let mut records = self.records();
        for lock in locks.iter().filter(|lock| lock.is_quorum) {
            if records.holdings.has(&lock.name) {
                records.holdings.seen(&lock.name, &seen_holders(lock), at);
            }
        }
    }
}

fn seen_holders(lock: &ShownLock) -> Vec<SeenHolder<'_>> {
    if lock.readers > 0 {
        let readers = lock.shared_by.iter().map(|reader| SeenHolder {
            owner: &reader.owner,
            token: 0,
            is_shared: true,
            since: reader.since,
        });
        return readers.collect();
    }
    let owner = lock.owner.as_deref().unwrap_or("a foreign key");
    vec![SeenHolder { owner, token: lock.token, is_shared: false, since: lock.since }]
}

/// Samples the counts until the dashboard is dropped.
async fn sample_repeatedly(recent: Weak<Recent>) {
    let mut ticks = interval(SAMPLE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(recent) = recent.upgrade() else { return };
        recent.sample();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::{events::EventLog, recent::HoldingEnd};

    /// Returns the number of requests that samples have found so far.
    fn sampled(recent: &Recent) -> u64 {
        recent.records().rates.view(Duration::ZERO).total.acquired()
    }

    async fn acquire(redlock: &Redlock) {
        redlock.lock("a").await.unwrap().release().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn counts_are_sampled_without_viewers() {
        let redlock = Redlock::embedded();
        acquire(&redlock).await;
        let (log, recent) = (Arc::new(EventLog::default()), Arc::new(Recent::new(redlock.clone())));
        log.follow_locks(redlock.events(), &recent);
        log.start();
        recent.start();
        sleep(SAMPLE_INTERVAL / 2).await;
        acquire(&redlock).await;
        assert_eq!(sampled(&recent), 0);

        sleep(SAMPLE_INTERVAL).await;

        assert_eq!(sampled(&recent), 1, "the request before the records does not count");
        let dropped = Arc::downgrade(&recent);
        drop(recent);
        assert!(dropped.upgrade().is_none(), "no task keeps the records");
    }

    #[tokio::test]
    async fn events_name_waits_and_holders() {
        let redlock = Redlock::embedded();
        let (recent, mut events) = (Recent::new(redlock.clone()), redlock.events());
        let held = redlock.lock("a").await.unwrap();
        redlock.lock("a").await.unwrap_err();
        let waits = redlock.lock("a").wait(Duration::from_secs(600));
        let waiting = tokio::spawn(async move { waits.await.unwrap() });
        tokio::task::yield_now().await;
        held.release().await.unwrap();
        let granted = waiting.await.unwrap();

        for _ in 0..2 {
            recent.note(&events.recv().await.unwrap());
        }

        let (name, waits) = recent.contended().remove(0);
        assert_eq!((&*name, waits.granted, waits.refused), ("a", 1, 1));
        let holding = recent.holdings("a").remove(0);
        assert_eq!(holding.token, granted.fencing_token().get());
        assert_eq!((holding.end, &holding.owner), (HoldingEnd::Open, redlock.owner()));
    }
}

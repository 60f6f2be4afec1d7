//! One clock that is moved by hand.
#![allow(dead_code, reason = "several test binaries share this file, and each uses a part of it")]

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tower_redlock::{
    Redlock, RedlockBuilder,
    lock::Spawner,
    time::{Clock, Timestamp},
};

/// Shows one time, for durations and as the wall clock, until it is moved.
#[derive(Clone, Debug)]
pub(crate) struct HandClock {
    nanos: Arc<AtomicU64>,
    is_watched: bool,
}

impl HandClock {
    /// A clock whose movements the crate's timers notice.
    pub(crate) fn new() -> Self {
        Self { nanos: Arc::new(AtomicU64::new(1_700_000_000_000_000_000)), is_watched: true }
    }

    /// For a manager without timers: only readings of the clock stop anything.
    pub(crate) fn unwatched() -> Self {
        Self { is_watched: false, ..Self::new() }
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.nanos.fetch_add(u64::try_from(by.as_nanos()).unwrap(), Ordering::SeqCst);
    }

    /// A builder on this clock, without a thread where the clock is unwatched.
    pub(crate) fn builder(&self) -> RedlockBuilder {
        let builder = Redlock::builder().clock(self.clone());
        if self.is_watched { builder } else { builder.spawner(NoSpawner) }
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.nanos.load(Ordering::SeqCst))
    }

    fn wall(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::SeqCst))
    }

    fn wait(&self, _: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(Duration::from_millis(1)))
    }

    fn granularity(&self) -> Duration {
        Duration::ZERO
    }
}

/// Drops every task: no timer ever fires.
#[derive(Debug)]
struct NoSpawner;

impl Spawner for NoSpawner {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        drop(task);
    }
}

//! A clock, flags and wakers to watch the hard stop with.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use tower_redlock::{
    LockError, Redlock, RedlockBuilder,
    error::LossCause,
    lock::Spawner,
    node::EmbeddedNodes,
    time::{Clock, Timestamp},
};

/// A minute before the end of the clock's first day.
pub(crate) const START: u64 = 86_340_000_000_000;
pub(crate) const TTL: Duration = Duration::from_secs(10);
/// TTL − (1 % + 2 ms).
pub(crate) const VALIDITY: Duration = Duration::from_millis(9_898);
pub(crate) const NANO: Duration = Duration::from_nanos(1);

/// A nanosecond before.
pub(crate) fn just_before(moment: Duration) -> Duration {
    moment.saturating_sub(NANO)
}

/// Stands still until it is moved.
#[derive(Clone, Debug)]
pub(crate) struct HandClock {
    now: Arc<AtomicU64>,
    is_watched: bool,
}

impl HandClock {
    /// For a manager without timers: what is stopped is stopped by the look at the clock alone.
    pub(crate) fn unwatched() -> Self {
        Self { now: Arc::new(AtomicU64::new(START)), is_watched: false }
    }

    /// The crate's timers notice when it moves.
    pub(crate) fn watched() -> Self {
        Self { is_watched: true, ..Self::unwatched() }
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.now.fetch_add(u64::try_from(by.as_nanos()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.now.load(Ordering::SeqCst))
    }

    fn wait(&self, _: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(Duration::from_millis(1)))
    }

    fn granularity(&self) -> Duration {
        Duration::ZERO
    }
}

pub(crate) fn builder(clock: &HandClock) -> RedlockBuilder {
    let builder = Redlock::builder().ttl(TTL).clock(clock.clone());
    if clock.is_watched { builder } else { builder.spawner(Nobody) }
}

/// Runs nothing: no timer ever fires.
#[derive(Debug)]
struct Nobody;

impl Spawner for Nobody {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        drop(task);
    }
}

pub(crate) fn redlock(clock: &HandClock) -> (Redlock, EmbeddedNodes) {
    let nodes = EmbeddedNodes::with_clock(5, clock.clone());
    (builder(clock).nodes_from(&nodes).build().unwrap(), nodes)
}

/// Sets its flag when it is dropped.
pub(crate) struct Flag(Arc<AtomicBool>);

impl Flag {
    pub(crate) fn new() -> (Self, Arc<AtomicBool>) {
        let flag = Arc::new(AtomicBool::new(false));
        (Self(Arc::clone(&flag)), flag)
    }
}

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Counts how often it is woken.
#[derive(Default)]
pub(crate) struct Woken(pub(crate) AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Work that is never done, counts its polls, and leaves its waker behind.
pub(crate) fn endless(
    polls: &Arc<AtomicUsize>,
    waker: &Arc<Mutex<Option<Waker>>>,
    flag: Flag,
) -> impl Future<Output = ()> + use<> {
    let (polls, waker) = (Arc::clone(polls), Arc::clone(waker));
    poll_fn(move |cx| {
        let _owned = &flag;
        polls.fetch_add(1, Ordering::SeqCst);
        *waker.lock().unwrap() = Some(cx.waker().clone());
        Poll::Pending
    })
}

pub(crate) fn is_expired<T>(polled: &Poll<Result<T, LockError>>) -> bool {
    matches!(polled, Poll::Ready(Err(LockError::Lost { cause: LossCause::Expired { .. } })))
}

//! A clock, flags and wakers for the tests.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tower_redlock::{LockError, error::LossCause};

pub(crate) use crate::{
    fixture::Woken,
    support::hand_clock::HandClock,
    support::scene::{Scene, TTL, VALIDITY},
};

pub(crate) const NANO: Duration = Duration::from_nanos(1);

/// One nanosecond before `moment`.
pub(crate) fn just_before(moment: Duration) -> Duration {
    moment.saturating_sub(NANO)
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

pub(crate) fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Endless work that counts its polls and stores its waker.
#[derive(Clone, Default)]
pub(crate) struct EndlessWork {
    polls: Arc<AtomicUsize>,
    waker: Arc<Mutex<Option<Waker>>>,
    is_dropped: Arc<AtomicBool>,
}

impl EndlessWork {
    /// The work, of which there is one.
    pub(crate) fn future(&self) -> impl Future<Output = ()> + use<> {
        let (work, flag) = (self.clone(), Flag(Arc::clone(&self.is_dropped)));
        poll_fn(move |cx| {
            let _owned = &flag;
            work.polls.fetch_add(1, Ordering::SeqCst);
            *work.waker.lock().unwrap() = Some(cx.waker().clone());
            Poll::Pending
        })
    }

    pub(crate) fn polls(&self) -> usize {
        self.polls.load(Ordering::SeqCst)
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::SeqCst)
    }

    /// Wakes the task that polled the work last.
    pub(crate) fn wake(&self) {
        self.waker.lock().unwrap().take().expect("the work was polled").wake();
    }
}

pub(crate) fn is_expired<T>(polled: &Poll<Result<T, LockError>>) -> bool {
    matches!(polled, Poll::Ready(Err(LockError::Lost { cause: LossCause::Expired { .. } })))
}

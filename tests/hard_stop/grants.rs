//! Grants that come after the end of the validity that they would give.

use std::{
    pin::pin,
    sync::{Arc, Mutex},
    task::Poll,
};

use tower_redlock::{
    LockError, Redlock, RedlockBuilder,
    error::Reason,
    node::{Answer, EmbeddedNodes, Node, NodeHealth, Op, Reply},
};

use crate::tools::{HandClock, NANO, VALIDITY, builder, just_before, poll};

type Held = (Reply, Result<Answer, Reason>);

/// Keeps the answers to acquire operations until they are let go.
#[derive(Debug)]
struct Slow {
    inner: Arc<dyn Node>,
    held: Arc<Mutex<Vec<Held>>>,
}

impl Node for Slow {
    fn send(&self, op: Op, reply: Reply) {
        if !matches!(op, Op::Acquire(_)) {
            return self.inner.send(op, reply);
        }
        let held = Arc::clone(&self.held);
        let keep = Reply::from_fn(move |result| held.lock().unwrap().push((reply, result)));
        self.inner.send(op, keep);
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn health(&self) -> NodeHealth {
        self.inner.health()
    }
}

/// A manager, its nodes, and what lets the answers go.
fn slow(clock: &HandClock) -> (Redlock, EmbeddedNodes, impl Fn() + use<>) {
    let nodes = EmbeddedNodes::with_clock(3, clock.clone());
    let held = Arc::<Mutex<Vec<Held>>>::default();
    let wrapped = nodes.nodes("redlock").map(|inner| Slow { inner, held: Arc::clone(&held) });
    let redlock = wrapped.fold(builder(clock), RedlockBuilder::node).build().unwrap();
    let let_go = move || {
        let held = std::mem::take(&mut *held.lock().unwrap());
        for (reply, result) in held {
            reply.send(result);
        }
    };
    (redlock, nodes, let_go)
}

#[test]
fn a_quorum_that_grants_in_the_last_nanosecond_gives_a_lock_for_a_nanosecond() {
    let clock = HandClock::unwatched();
    let (redlock, _, let_go) = slow(&clock);
    let mut acquire = pin!(redlock.lock("x").into_future());
    assert!(poll(acquire.as_mut()).is_pending());
    clock.advance(just_before(VALIDITY));
    let_go();
    let Poll::Ready(Ok(lock)) = poll(acquire.as_mut()) else { panic!() };
    assert_eq!(lock.remaining(), NANO, "from the start of the request");
}

#[test]
fn a_quorum_that_grants_at_the_end_of_the_validity_is_too_slow_and_keeps_no_key() {
    let clock = HandClock::unwatched();
    let (redlock, nodes, let_go) = slow(&clock);
    let mut acquire = pin!(redlock.lock("x").into_future());
    assert!(poll(acquire.as_mut()).is_pending());
    assert_eq!(nodes.key_counts(), [1; 3]);
    clock.advance(VALIDITY);
    let_go();
    let Poll::Ready(Err(error)) = poll(acquire.as_mut()) else { panic!() };
    let LockError::TooSlow { elapsed, validity, votes } = &error else { panic!("{error:?}") };
    assert_eq!((*elapsed, *validity, votes.len()), (VALIDITY, VALIDITY, 3));
    assert!(error.to_string().contains("embedded-"), "names its nodes: {error}");
    assert_eq!(nodes.key_counts(), [0; 3]);
}

#[test]
fn a_grant_that_is_fetched_after_its_validity_is_no_lock() {
    let clock = HandClock::unwatched();
    let (redlock, nodes, let_go) = slow(&clock);
    let mut acquire = pin!(redlock.lock("x").into_future());
    assert!(poll(acquire.as_mut()).is_pending());
    let_go();
    // The task that asked is not polled in time: its runtime is busy elsewhere.
    clock.advance(VALIDITY);
    let polled = poll(acquire.as_mut());
    assert!(matches!(polled, Poll::Ready(Err(LockError::TooSlow { .. }))), "{polled:?}");
    assert_eq!(nodes.key_counts(), [0; 3]);
}

#[test]
fn work_whose_grant_is_fetched_after_its_validity_does_not_begin_and_the_error_says_so() {
    let clock = HandClock::unwatched();
    let (redlock, _, let_go) = slow(&clock);
    let mut run = pin!(redlock.lock("x").run(|_| async { panic!("it must not begin") }));
    assert!(poll(run.as_mut()).is_pending());
    let_go();
    clock.advance(VALIDITY);
    let polled = poll(run.as_mut());
    // `Lost` means that the work began and its outcome is unknown.
    assert!(matches!(polled, Poll::Ready(Err::<(), _>(LockError::TooSlow { .. }))), "{polled:?}");
}

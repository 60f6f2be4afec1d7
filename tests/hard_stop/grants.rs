//! Grants that arrive after the end of their validity.

use std::{pin::pin, task::Poll};

use tower_redlock::{EmbeddedNodes, LockError, Redlock, node::Op};

use crate::mock_node::{Withheld, with_nodes};
use crate::tools::{HandClock, NANO, VALIDITY, builder, just_before, poll};

/// A manager, its nodes, and the answers to its acquires, which are withheld.
fn slow(clock: &HandClock) -> (Redlock, EmbeddedNodes, Withheld) {
    let nodes = EmbeddedNodes::with_clock(3, clock.clone());
    let withheld = Withheld::default();
    let node = |inner| withheld.node(&inner, |op| matches!(op, Op::Acquire(_)));
    let redlock = with_nodes(builder(clock), nodes.nodes("redlock").map(node)).build().unwrap();
    (redlock, nodes, withheld)
}

#[test]
fn last_nanosecond_grant_is_a_lock() {
    let clock = HandClock::unwatched();
    let (redlock, _, answers) = slow(&clock);
    let mut acquire = pin!(redlock.lock("x").into_future());
    assert!(poll(acquire.as_mut()).is_pending());
    clock.advance(just_before(VALIDITY));
    answers.deliver();
    let Poll::Ready(Ok(lock)) = poll(acquire.as_mut()) else { panic!() };
    assert_eq!(lock.remaining(), NANO, "from the start of the request");
}

#[test]
fn grant_at_end_is_too_slow() {
    let clock = HandClock::unwatched();
    let (redlock, nodes, answers) = slow(&clock);
    let mut acquire = pin!(redlock.lock("x").into_future());
    assert!(poll(acquire.as_mut()).is_pending());
    assert_eq!(nodes.key_counts(), [1; 3]);
    clock.advance(VALIDITY);
    answers.deliver();
    let Poll::Ready(Err(error)) = poll(acquire.as_mut()) else { panic!() };
    let LockError::TooSlow { elapsed, validity, votes } = &error else { panic!("{error:?}") };
    assert_eq!((*elapsed, *validity, votes.len()), (VALIDITY, VALIDITY, 3));
    assert!(error.to_string().contains("embedded-"), "names its nodes: {error}");
    assert_eq!(nodes.key_counts(), [0; 3]);
}

#[test]
fn late_grant_is_no_lock() {
    let clock = HandClock::unwatched();
    let (redlock, nodes, answers) = slow(&clock);
    let mut acquire = pin!(redlock.lock("x").into_future());
    assert!(poll(acquire.as_mut()).is_pending());
    answers.deliver();
    // The task is not polled in time: its runtime is busy.
    clock.advance(VALIDITY);
    let polled = poll(acquire.as_mut());
    assert!(matches!(polled, Poll::Ready(Err(LockError::TooSlow { .. }))), "{polled:?}");
    assert_eq!(nodes.key_counts(), [0; 3]);
}

#[test]
fn late_grant_runs_no_work() {
    let clock = HandClock::unwatched();
    let (redlock, _, answers) = slow(&clock);
    let mut run = pin!(redlock.lock("x").run(|_| async { panic!("it must not begin") }));
    assert!(poll(run.as_mut()).is_pending());
    answers.deliver();
    clock.advance(VALIDITY);
    let polled = poll(run.as_mut());
    // `Lost` means that the work began and its outcome is unknown.
    assert!(matches!(polled, Poll::Ready(Err::<(), _>(LockError::TooSlow { .. }))), "{polled:?}");
}

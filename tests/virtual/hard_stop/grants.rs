//! Grants that arrive after the end of their validity.

use std::{pin::pin, task::Poll};

use tower_redlock::{LockError, node::Op};

use crate::{
    hard_stop::fixture::{NANO, Scene, VALIDITY, just_before, poll},
    support::mock_node::Withheld,
};

/// A manager, and the answers to its acquires, which are withheld.
fn slow() -> (Scene, Withheld) {
    let withheld = Withheld::default();
    let node = |inner| withheld.node(&inner, |op| matches!(op, Op::Acquire(_)));
    (Scene::without_timers(3).over(|builder| builder, node), withheld)
}

#[test]
fn last_nanosecond_grant_is_a_lock() {
    let (Scene { clock, redlock, .. }, answers) = slow();
    let mut acquire = pin!(redlock.lock("x").into_future());
    assert!(poll(acquire.as_mut()).is_pending());
    clock.advance(just_before(VALIDITY));
    answers.deliver();
    let Poll::Ready(Ok(lock)) = poll(acquire.as_mut()) else { panic!() };
    assert_eq!(lock.remaining(), NANO, "from the start of the request");
}

#[test]
fn grant_at_end_is_too_slow() {
    let (Scene { clock, redlock, nodes }, answers) = slow();
    let mut acquire = pin!(redlock.lock("x").into_future());
    assert!(poll(acquire.as_mut()).is_pending());
    assert_eq!(nodes.key_counts(), [1; 3]);
    clock.advance(VALIDITY);
    answers.deliver();
    let Poll::Ready(Err(error)) = poll(acquire.as_mut()) else { panic!() };
    let LockError::TooSlow { elapsed, validity, votes } = &error else { panic!("{error:?}") };
    assert_eq!((*elapsed, *validity, votes.len()), (VALIDITY, VALIDITY, 3));
    assert!(error.to_string().starts_with("granted after "), "{error}");
    assert!(!error.to_string().contains("embedded-"), "no node refused: {error}");
    assert_eq!(nodes.key_counts(), [0; 3]);
}

#[test]
fn late_grant_is_not_a_lock() {
    let (Scene { clock, redlock, nodes }, answers) = slow();
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
    let (Scene { clock, redlock, .. }, answers) = slow();
    let mut run = pin!(redlock.lock("x").run(|_| async { panic!("it must not begin") }));
    assert!(poll(run.as_mut()).is_pending());
    answers.deliver();
    clock.advance(VALIDITY);
    let polled = poll(run.as_mut());
    // `Lost` means that the work began and its outcome is unknown.
    assert!(matches!(polled, Poll::Ready(Err::<(), _>(LockError::TooSlow { .. }))), "{polled:?}");
}

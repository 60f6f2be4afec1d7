//! Work under a lock that another task of the process handed over.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    task::Poll,
    time::Duration,
};

use tower_redlock::{LockError, Redlock, error::LossCause};

use crate::hard_stop::fixture::{
    EndlessWork, HandClock, NANO, Scene, VALIDITY, is_expired, just_before, poll,
};

const WAIT: Duration = Duration::from_secs(3_600);
const EARLIER: Duration = Duration::from_millis(90);

/// Endless work under a lock that is handed over `EARLIER` after the start of the lease.
fn handed_on<F: Future>(
    redlock: &Redlock,
    clock: &HandClock,
    max_hold: Duration,
    work: F,
) -> Pin<Box<impl Future<Output = Result<F::Output, LockError>> + use<F>>> {
    let request = redlock.lock("x").auto_extend(false);
    let mut first = request.clone().into_future();
    let Poll::Ready(Ok(first)) = poll(Pin::new(&mut first)) else { panic!() };
    let mut run = Box::pin(request.wait(WAIT).max_hold(max_hold).run(|_| work));
    assert!(poll(run.as_mut()).is_pending(), "it waits in line");
    clock.advance(EARLIER);
    drop(first);
    run
}

#[test]
fn no_poll_at_end_of_validity() {
    for margin in [NANO, Duration::ZERO] {
        let Scene { clock, redlock, .. } = Scene::without_timers(5);
        let work = EndlessWork::default();
        let mut run = handed_on(&redlock, &clock, WAIT, work.future());
        assert!(poll(run.as_mut()).is_pending());
        let first = work.polls();
        assert!(first > 0);
        // The validity counts from the start of the lease.
        clock.advance(VALIDITY.saturating_sub(EARLIER + margin));
        let polled = poll(run.as_mut());
        if margin.is_zero() {
            assert!(is_expired(&polled), "{polled:?}");
            assert_eq!(work.polls(), first);
            assert!(work.is_dropped());
        } else {
            assert!(polled.is_pending());
            assert_eq!(work.polls(), first + 1);
        }
    }
}

#[test]
fn no_poll_at_own_max_hold() {
    const HOLD: Duration = Duration::from_secs(1);
    let Scene { clock, redlock, .. } = Scene::without_timers(5);
    let work = EndlessWork::default();
    let mut run = handed_on(&redlock, &clock, HOLD, work.future());
    clock.advance(just_before(HOLD));
    assert!(poll(run.as_mut()).is_pending());
    let before = work.polls();
    clock.advance(NANO);
    let polled = poll(run.as_mut());
    let Poll::Ready(Err(LockError::Lost { cause })) = polled else { panic!() };
    assert_eq!(cause, LossCause::MaxHold { limit: HOLD });
    assert_eq!(work.polls(), before);
}

#[test]
fn late_hand_off_runs_no_work() {
    let Scene { clock, redlock, nodes } = Scene::without_timers(5);
    let mut run = handed_on(&redlock, &clock, WAIT, async { panic!("it must not begin") });
    clock.advance(VALIDITY.saturating_sub(EARLIER));
    let polled = poll(run.as_mut());
    assert!(matches!(polled, Poll::Ready(Err(LockError::TooSlow { .. }))), "too slow");
    drop(run);
    assert_eq!(nodes.key_counts(), [0; 5]);
}

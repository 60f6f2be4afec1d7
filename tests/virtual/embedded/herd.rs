//! Retry hints of rejected callers.

use std::{future::IntoFuture, task::Poll, time::Duration};

use tower_redlock::{LockError, Redlock};

use crate::embedded::handoff::fixture::{Fixture, poll};

const HOLD: Duration = Duration::from_millis(30);

fn turned_away(redlock: &Redlock, name: &str, wait: Duration) -> Option<Duration> {
    match poll(&mut redlock.lock(name).wait(wait).into_future()) {
        Poll::Ready(Err(error)) => match error.root() {
            LockError::Held { retry_after, .. } => *retry_after,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// A manager whose locks are usually held for [`HOLD`].
fn fixture() -> Fixture {
    let fixture = Fixture::new();
    for i in 0..20 {
        let lock = fixture.lock(format!("order:{i}"));
        fixture.clock.advance(HOLD);
        drop(lock);
    }
    fixture
}

#[test]
fn twenty_short_calls_return_in_turn() {
    let fixture = fixture();
    let lock = fixture.lock("order:100");
    for ahead in 0..20 {
        let after = turned_away(&fixture.redlock, "order:100", Duration::ZERO)
            .expect("the error has an estimate");
        let slot = HOLD * ahead;
        assert!(after >= slot + HOLD / 3 && after <= slot + HOLD * 2, "{ahead}: {after:?}");
    }
    drop(lock);
    let lock = fixture.lock("order:100");
    let after = turned_away(&fixture.redlock, "order:100", Duration::ZERO)
        .expect("the error has an estimate");
    assert!(after <= HOLD * 2, "those of before came back: {after:?}");
    drop(lock);
}

#[test]
fn queued_waiters_come_first() {
    let fixture = fixture();
    let lock = fixture.lock("order:100");
    let waiters: Vec<_> = (0..10).map(|_| fixture.waiter("order:100")).collect();
    let after = turned_away(&fixture.redlock, "order:100", Duration::ZERO)
        .expect("the error has an estimate");
    assert!(after >= HOLD * 10 && after <= HOLD * 12, "{after:?}");
    drop((waiters, lock));
}

#[test]
fn remote_holder_takes_the_usual_time() {
    let fixture = fixture();
    let other = fixture.other();
    let Poll::Ready(Ok(_lock)) = poll(&mut other.lock("order:100").into_future()) else { panic!() };
    let told: Vec<_> = (0..50)
        .map(|_| {
            turned_away(&fixture.redlock, "order:100", Duration::ZERO)
                .expect("the error has an estimate")
        })
        .collect();
    assert!(told.iter().all(|after| *after <= HOLD * 2), "{told:?}");
    assert!(told.iter().any(|after| *after != told[0]), "jitter: {told:?}");
}

//! A handoff as seen by the task that releases the lock, and by the next one.

use std::{future::IntoFuture, task::Poll, time::Duration};

use tower_redlock::{LockError, error::LossCause, lock::Released};

use super::fixture::{Fixture, NODES, TTL, VALIDITY, granted, poll, waiting};

#[test]
fn five_leases_serve_hundred_in_order() {
    let fixture = Fixture::new();
    let first = fixture.lock("x");
    let mut last = first.fencing_token();
    let waiters: Vec<_> = (0..100).map(|_| fixture.waiter("x")).collect();
    drop(first);
    for mut waiter in waiters {
        // Only the first waiter gets the lock.
        let lock = granted(&mut waiter);
        assert!(lock.fencing_token() > last, "tokens grow");
        last = lock.fencing_token();
    }
    assert_eq!(fixture.leases(), 5, "25 grants a lease");
    assert_eq!(fixture.sent(), 2 * 5 * NODES, "acquired and released, and nothing else");
    assert_eq!(fixture.nodes.key_counts(), [0; NODES]);
}

#[test]
fn former_holder_keeps_nothing() {
    let fixture = Fixture::new();
    let lock = fixture.lock("x");
    let (context, mut lost, mut stopping) =
        (lock.context(), lock.lost(), lock.context().stopping());
    assert!(poll(&mut lost).is_pending() && poll(&mut stopping).is_pending());
    let mut waiter = fixture.waiter("x");
    let sent = fixture.sent();
    let token = lock.fencing_token();
    drop(lock);
    // The next holder has not been polled yet.
    assert_eq!(context.remaining(), Duration::ZERO);
    let error = context.ensure_valid().unwrap_err();
    assert!(matches!(error, LockError::Lost { cause: LossCause::Released }), "{error:?}");
    assert_eq!(poll(&mut lost), Poll::Ready(LossCause::Released));
    assert!(poll(&mut stopping).is_ready());
    assert_eq!(context.fencing_token(), token);
    let next = granted(&mut waiter);
    assert_eq!(fixture.sent(), sent, "without a message");
    assert_eq!(next.fencing_token().get(), token.get() + 1);
    assert!(next.is_valid() && next.remaining() == VALIDITY);
    assert!(context.ensure_valid().is_err(), "what is given back stays so");
    assert_eq!(poll(&mut context.stopping()), Poll::Ready(()));
    assert!(
        poll(&mut next.lost()).is_pending() && poll(&mut next.context().stopping()).is_pending()
    );
}

#[test]
fn handing_on_completes_release_at_once() {
    let fixture = Fixture::new();
    let lock = fixture.lock("x");
    let mut waiter = fixture.waiter("x");
    assert_eq!(poll(&mut lock.release()), Poll::Ready(Ok(Released::Released)));
    let next = granted(&mut waiter);
    assert_eq!(poll(&mut next.release()), Poll::Ready(Ok(Released::Released)));
    assert_eq!(fixture.nodes.key_counts(), [0; NODES]);
}

#[test]
fn uncollected_handover_goes_to_the_next_waiter() {
    let fixture = Fixture::new();
    let lock = fixture.lock("x");
    let (second, mut third, fourth) =
        (fixture.waiter("x"), fixture.waiter("x"), fixture.waiter("x"));
    drop(lock);
    drop(second);
    let lock = granted(&mut third);
    drop(lock);
    assert_eq!(fixture.leases(), 1);
    assert_eq!(fixture.nodes.key_counts(), [1; NODES]);
    drop(fourth);
    assert_eq!(fixture.nodes.key_counts(), [0; NODES], "nobody is left");
    drop(fixture.lock("x"));
}

#[test]
fn failed_attempt_names_the_present_holder() {
    let fixture = Fixture::new();
    let single = || match poll(&mut fixture.request("x").wait(Duration::ZERO).into_future()) {
        Poll::Ready(Err(LockError::Held { owner, expires_in: Some(after), .. })) => {
            assert_eq!(owner.as_deref(), Some("we"));
            after
        }
        other => panic!("{other:?}"),
    };
    let lock = fixture.lock("x");
    let mut waiter = fixture.waiter("x");
    assert_eq!(single(), VALIDITY);
    drop(lock);
    assert_eq!(single(), VALIDITY, "before it is fetched");
    let lock = granted(&mut waiter);
    assert_eq!(single(), VALIDITY);
    drop(lock);
    assert_eq!(fixture.leases(), 1);
}

#[test]
fn set_is_handed_to_same_set() {
    let fixture = Fixture::new();
    let request = |names: [&str; 2]| fixture.redlock.lock(names).wait(TTL);
    let lock = granted(&mut request(["a", "b"]).into_future());
    let mut same = waiting(request(["b", "a"]));
    drop(lock);
    let lock = granted(&mut same);
    assert_eq!(fixture.leases(), 1);
    // A request waits for one of the names.
    let mut same = waiting(request(["a", "b"]));
    let mut b = fixture.waiter("b");
    drop(lock);
    drop(granted(&mut b));
    drop(granted(&mut same));
    assert_eq!(fixture.leases(), 3);
    // Another set with the same first name.
    let lock = granted(&mut request(["a", "b"]).into_future());
    let mut other = waiting(request(["a", "c"]));
    drop(lock);
    drop(granted(&mut other));
    assert_eq!(fixture.leases(), 5);
    assert_eq!(fixture.nodes.key_counts(), [0; NODES]);
}

#[tokio::test]
async fn servers_name_owner_as_before() {
    let fixture = Fixture::new();
    let lock = fixture.lock("x");
    let first = lock.fencing_token();
    let mut waiter = fixture.waiter("x");
    drop(lock);
    let lock = granted(&mut waiter);
    let holder = fixture.redlock.inspect("x").await.unwrap().unwrap();
    assert_eq!(holder.owner.as_deref(), Some("we"));
    assert!(holder.is_quorum);
    assert_eq!(holder.token, first, "of the lease");
    drop(lock);
}

//! Ends of single readers of a lease.

use tower_redlock::{
    error::LossCause,
    lock::{LockEventKind, Released},
};

use crate::{
    durations::{MINUTE, SECOND},
    fixture::Fixture,
};

#[test]
fn each_reader_has_its_own_max_hold() {
    let fixture = Fixture::<1>::numbered(1);
    let request = || fixture.request(0).shared();
    let short = fixture.done(request().max_hold(15 * SECOND)).unwrap();
    fixture.clock.advance(5 * SECOND);
    let long = fixture.done(request().max_hold(MINUTE)).unwrap();
    let mut lost = [&short, &long].map(|reader| fixture.clock.spawn(reader.lost()));
    fixture.clock.advance(11 * SECOND);
    assert!(!short.is_valid());
    assert_eq!(lost[0].take(), Some(LossCause::MaxHold { limit: 15 * SECOND }));
    fixture.clock.advance(40 * SECOND);
    assert!(long.is_valid() && !lost[1].is_finished());
    fixture.clock.advance(10 * SECOND);
    assert!(!long.is_valid());
    assert_eq!(lost[1].take(), Some(LossCause::MaxHold { limit: MINUTE }));
}

#[test]
fn ended_reader_stays_beside_the_others() {
    let fixture = Fixture::<1>::numbered(1);
    let request = || fixture.request(0).shared();
    let short = fixture.done(request().max_hold(15 * SECOND)).unwrap();
    let long = fixture.done(request().max_hold(MINUTE)).unwrap();
    fixture.clock.advance(16 * SECOND);
    assert!(!short.is_valid());
    let lost = fixture.clock.spawn(long.lost());
    fixture.clock.advance(20 * SECOND);
    assert!(long.is_valid() && !short.is_valid() && !lost.is_finished());
}

#[test]
fn max_hold_of_a_reader_outlives_a_longer_one() {
    let fixture = Fixture::<2>::numbered(1);
    let request = || fixture.request(0).shared();
    let long = fixture.done(request().max_hold(MINUTE)).unwrap();
    let short = fixture.done(request().max_hold(15 * SECOND)).unwrap();
    let mut lost = fixture.clock.spawn(short.lost());

    drop(long);
    fixture.clock.advance(16 * SECOND);

    assert!(!short.is_valid());
    assert_eq!(lost.take(), Some(LossCause::MaxHold { limit: 15 * SECOND }));
    fixture.clock.advance(10 * SECOND);
    assert!(fixture.write(1).is_ok(), "the lease is not renewed any more");
}

#[test]
fn ended_reader_keeps_no_lease() {
    let fixture = Fixture::<2>::numbered(1);
    let request = || fixture.request(0).shared();
    let short = fixture.done(request().max_hold(5 * SECOND)).unwrap();
    let long = fixture.done(request().max_hold(MINUTE)).unwrap();
    fixture.clock.advance(6 * SECOND);
    assert!(!short.is_valid());
    let mut released = fixture.clock.spawn(long.release());
    fixture.clock.settle();
    assert!(matches!(released.take(), Some(Ok(Released::Released))));
    assert!(fixture.write(1).is_ok());
    drop(short);
    fixture.clock.advance(SECOND);
    assert_eq!(fixture.nodes.key_counts(), [0, 0, 0]);
}

#[test]
fn release_after_the_lease_is_confirmed_at_once() {
    let fixture = Fixture::<1>::numbered(1);
    let short = fixture.done(fixture.request(0).shared().max_hold(SECOND)).unwrap();
    let long = fixture.read(0).unwrap();
    fixture.clock.advance(2 * SECOND);
    drop(long);
    fixture.clock.settle();

    let mut released = fixture.clock.spawn(short.release());
    fixture.clock.settle();

    assert!(released.take().expect("the release is confirmed").is_ok());
}

#[test]
fn reader_joins_beside_one_that_has_ended() {
    let fixture = Fixture::<1>::numbered(1);
    let long = fixture.read(0).unwrap();
    let short = fixture.done(fixture.request(0).shared().max_hold(SECOND)).unwrap();
    fixture.clock.advance(2 * SECOND);
    let mut lost = fixture.clock.spawn(short.lost());
    fixture.clock.settle();
    assert!(lost.take().is_some() && !short.is_valid() && long.is_valid());
    assert!(fixture.read(0).is_ok());
}

#[test]
fn end_of_a_readers_max_hold_is_an_event() {
    let fixture = Fixture::<1>::numbered(1);
    let mut events = fixture.processes[0].events();
    let long = fixture.read(0).unwrap();
    let short = fixture.done(fixture.request(0).shared().max_hold(SECOND)).unwrap();

    fixture.clock.advance(2 * SECOND);

    assert!(long.is_valid() && !short.is_valid());
    let mut lost = Vec::new();
    while let Ok(event) = events.try_recv() {
        if let LockEventKind::Lost { cause, shared, .. } = event.kind {
            lost.push((cause, shared));
        }
    }
    assert_eq!(lost, [(LossCause::MaxHold { limit: SECOND }, true)]);
}

//! Exclusive locks that become shared ones.

use tower_redlock::{LockError, error::LossCause};

use super::downgrade;
use crate::{
    durations::{MINUTE, MS, SECOND},
    fixture::{Fixture, granted, is_held},
};

#[test]
fn downgrade_lets_readers_in_and_no_writer() {
    let fixture = Fixture::<3>::numbered(1);
    let writer = fixture.write(0).unwrap();
    let (token, context) = (writer.fencing_token(), writer.context());
    let mut other_writer = fixture.spawn(fixture.request(1).wait(MINUTE));
    let wait = |process: usize| fixture.spawn(fixture.request(process).shared().wait(MINUTE));
    let mut readers = [wait(0), wait(2)];

    let reader = downgrade(&fixture, writer).unwrap();
    fixture.clock.advance(20 * MS);

    assert!(reader.is_shared() && reader.fencing_token() >= token);
    assert!(context.ensure_valid().is_err(), "it is exclusive no more");
    let joined = granted(&mut readers[0]);
    assert!(!other_writer.is_finished());
    fixture.clock.advance(30 * SECOND);
    assert!(reader.is_valid() && joined.is_valid(), "it is renewed");
    drop((reader, joined));
    fixture.clock.advance(50 * MS);
    if let Some(other) = readers[1].take() {
        drop(other.unwrap());
        fixture.clock.advance(50 * MS);
    }
    let other_writer = granted(&mut other_writer);
    assert!(other_writer.fencing_token() > token);
}

#[test]
fn downgraded_lock_is_shared_by_waiting_readers() {
    let fixture = Fixture::<2>::numbered(1);
    let writer = fixture.write(0).unwrap();
    let mut elsewhere = fixture.spawn(fixture.request(1).shared().wait(MINUTE));

    let reader = downgrade(&fixture, writer).unwrap();
    fixture.clock.advance(20 * MS);

    let elsewhere = granted(&mut elsewhere);
    assert!(reader.is_valid() && elsewhere.is_valid());
    let same = downgrade(&fixture, reader).unwrap();
    assert!(same.is_valid() && same.is_shared());
}

#[test]
fn downgrade_is_a_renewal() {
    let fixture = Fixture::<2>::numbered(1);
    let writer = fixture.write(0).unwrap();
    let validity = writer.remaining();
    fixture.nodes.stop([0, 1, 2]);

    let reader = downgrade(&fixture, writer).unwrap();
    let joined = fixture.read(0).unwrap();

    assert!(reader.is_valid() && joined.remaining() == reader.remaining());
    fixture.clock.advance(validity / 2);
    fixture.nodes.start([0, 1, 2]);
    fixture.clock.advance(SECOND);
    assert!(reader.remaining() > validity / 2, "it is renewed once the nodes answer");
    assert!(is_held(fixture.write(1)) && fixture.read(1).is_ok());
    drop((reader, joined));
    fixture.clock.advance(SECOND);
    assert_eq!(fixture.nodes.key_counts(), [0, 0, 0]);
}

#[test]
fn downgrade_without_nodes_ends_with_its_validity() {
    let fixture = Fixture::<2>::numbered(1);
    let writer = fixture.write(0).unwrap();
    fixture.nodes.stop([0, 1]);

    let reader = downgrade(&fixture, writer).unwrap();
    let mut lost = fixture.clock.spawn(reader.lost());
    fixture.clock.advance(11 * SECOND);

    assert!(matches!(lost.take(), Some(LossCause::Expired { .. })) && !reader.is_valid());
    drop(reader);
    fixture.nodes.start([0, 1]);
    fixture.clock.advance(SECOND);
    assert!(fixture.write(1).is_ok());
}

/// One node does not answer, and another one has the mark of a writer, which its shared leases refused.
#[test]
fn downgrade_beside_a_mark_holds() {
    let fixture = Fixture::<3>::numbered(1);
    let reader = fixture.read(0).unwrap();
    let mut writer = fixture.spawn(fixture.request(1).wait(MINUTE));
    fixture.clock.advance(5 * MS);
    fixture.nodes.stop([0]);
    drop(reader);
    fixture.clock.advance(20 * MS);
    let writer = granted(&mut writer);
    fixture.nodes.start([0]);
    let other = fixture.spawn(fixture.request(2).wait(MINUTE));
    fixture.clock.advance(5 * MS);
    fixture.nodes.stop([2]);

    let reader = downgrade(&fixture, writer).unwrap();
    fixture.clock.advance(20 * SECOND);

    assert!(reader.is_valid(), "renewed on the other nodes");
    drop(other);
}

#[test]
fn downgraded_lease_is_released_everywhere() {
    let fixture = Fixture::<2>::numbered(1);
    let writer = fixture.write(0).unwrap();
    fixture.nodes.freeze([0, 1, 2]);
    let reader = downgrade(&fixture, writer).unwrap();
    drop(reader);
    fixture.clock.settle();
    fixture.nodes.thaw([0, 1, 2]);
    fixture.clock.advance(SECOND);

    assert_eq!(fixture.nodes.key_counts(), [0, 0, 0]);
    assert!(fixture.write(1).is_ok());
}

#[test]
fn lost_lock_is_not_downgraded() {
    let fixture = Fixture::<1>::numbered(1);
    let writer = fixture.done(fixture.request(0).max_hold(2 * SECOND)).unwrap();
    fixture.clock.advance(3 * SECOND);

    let downgraded = downgrade(&fixture, writer);

    assert!(matches!(downgraded, Err(LockError::Lost { .. })));
}

#[test]
fn locks_that_cannot_be_shared_are_not_downgraded() {
    let fixture = Fixture::<1>::numbered(1);
    let redlock = &fixture.processes[0];
    for (request, what) in [
        (redlock.lock(["a", "b"]), "a set of names"),
        (redlock.lock("c").slots(2), "a slot"),
        (redlock.lock("d").auto_extend(false), "auto_extend(false)"),
    ] {
        let lock = fixture.done(request).unwrap();
        let refused = downgrade(&fixture, lock).unwrap_err();
        assert!(refused.to_string().contains(what), "{refused}");
    }
}

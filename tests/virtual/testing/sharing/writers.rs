//! Writers that wait for readers.

use std::future::IntoFuture;

use futures_util::future::abortable;
use tower_redlock::{LockError, LockOptions};

use super::read_on;
use crate::{
    durations::{MINUTE, MS, SECOND},
    fixture::{Fixture, granted, is_held},
};

#[test]
fn waiting_writer_keeps_new_readers_out() {
    let fixture = Fixture::<3>::numbered(1);
    let (one, two) = (fixture.read(0).unwrap(), fixture.read(1).unwrap());
    let mut writer = fixture.spawn(fixture.request(2).wait(MINUTE));
    fixture.clock.advance(5 * MS);
    for process in 0..3 {
        assert!(is_held(fixture.read(process)), "process {process}");
    }
    drop(one);
    fixture.clock.advance(5 * MS);
    assert!(!writer.is_finished());
    drop(two);
    fixture.clock.advance(20 * MS);
    let writer = granted(&mut writer);
    assert!(is_held(fixture.read(0)));
    drop(writer);
    fixture.clock.advance(20 * MS);
    assert!(fixture.read(0).is_ok());
}

#[test]
fn writer_whose_request_was_lost_asks_again() {
    let mut fixture = Fixture::<2>::numbered(1);
    let readers = fixture.nodes.replica("readers");
    fixture.processes[0] = readers.redlock();
    let reader = fixture.read(0).unwrap();
    // What the nodes send to the readers' process is lost, also that a writer waits.
    readers.partition([0, 1, 2]);
    let mut writer = fixture.spawn(fixture.request(1).wait(MINUTE));
    fixture.clock.advance(5 * MS);
    readers.heal([0, 1, 2]);

    let reader = read_on(&fixture, reader);

    assert!(is_held(fixture.read(0)), "the writer waits for a gap");
    drop(reader);
    fixture.clock.advance(20 * MS);
    drop(granted(&mut writer));
}

#[test]
fn cancelled_writer_costs_others_nothing() {
    let fixture = Fixture::<4>::numbered(1);
    let reader = fixture.read(0).unwrap();
    let (request, writer) = abortable(fixture.request(1).wait(MINUTE).into_future());
    let _task = fixture.clock.spawn(request);
    fixture.clock.advance(5 * MS);
    let mut kept_out = fixture.spawn(fixture.request(2).shared().wait(MINUTE));
    fixture.clock.advance(5 * MS);
    assert!(is_held(fixture.read(0)) && !kept_out.is_finished(), "the writer comes first");
    writer.abort();
    fixture.clock.advance(20 * MS);
    drop(granted(&mut kept_out));
    assert!(fixture.read(0).is_ok() && fixture.read(3).is_ok());
    drop(reader);
}

/// Its second attempt meets another name that is held alone, and so not the mark of the first one.
#[test]
fn cancelled_writer_of_a_set_leaves_no_mark() {
    let fixture = Fixture::<4>::numbered(1);
    let of = |process: usize, name: &str| fixture.processes[process].lock(name);
    let reader = fixture.done(of(0, "b").shared()).unwrap();
    let set = fixture.processes[1].lock(["a", "b"]).wait(MINUTE);
    let (request, writer) = abortable(set.into_future());
    let _task = fixture.clock.spawn(request);
    fixture.clock.settle();
    let other = fixture.done(of(2, "a")).unwrap();
    fixture.clock.advance(SECOND + 100 * MS);
    drop(reader);
    assert!(is_held(fixture.done(of(3, "b").shared())), "the writer comes first");
    writer.abort();
    fixture.clock.advance(20 * MS);
    assert!(fixture.done(of(3, "b").shared()).is_ok());
    drop(other);
}

#[test]
fn writer_that_gave_up_keeps_no_free_name() {
    for (process, shared) in [(2, true), (2, false), (0, false)] {
        let fixture = Fixture::<3>::numbered(1);
        let reader = fixture.read(0).unwrap();
        let writer = fixture.spawn(fixture.request(1).wait(100 * MS));
        fixture.clock.advance(5 * MS);
        drop(reader);
        fixture.nodes.stop([0, 1, 2]);
        fixture.clock.advance(200 * MS);
        assert!(writer.is_finished(), "its wait is over");
        fixture.nodes.start([0, 1, 2]);
        fixture.clock.advance(SECOND / 2);
        assert!(
            fixture
                .done(fixture.request(process).options(LockOptions::new().shared(shared)))
                .is_ok()
        );
    }
}

#[test]
fn writer_that_comes_and_goes_lets_readers_in() {
    let fixture = Fixture::<3>::numbered(1);
    let mut reader = fixture.read(0).unwrap();
    let (mut got_in, mut rounds) = (0, 0);
    for _ in 0..20 {
        let writer = fixture.spawn(fixture.request(1).wait(50 * MS));
        fixture.clock.advance(60 * MS);
        drop(writer);
        for _ in 0..14 {
            rounds += 1;
            fixture.clock.advance(100 * MS);
            got_in += u32::from(fixture.read(2).is_ok());
            reader = fixture.read(0).unwrap_or(reader);
        }
    }

    assert_eq!(got_in, rounds, "no writer waits at that moment");
}

#[test]
fn granted_writer_leaves_no_mark_on_a_node_that_refused() {
    let fixture = Fixture::<3>::numbered(1);
    let reader = fixture.read(0).unwrap();
    let mut writer = fixture.spawn(fixture.request(1).wait(MINUTE));
    fixture.clock.advance(5 * MS);
    // The release does not reach one node, which keeps the reader's key, and the mark.
    fixture.nodes.stop([0]);
    drop(reader);
    fixture.clock.advance(5 * MS);
    fixture.nodes.start([0]);
    fixture.clock.advance(20 * MS);
    let writer = granted(&mut writer);

    drop(writer);
    fixture.clock.settle();
    fixture.nodes.stop([2]);

    assert!(fixture.read(2).is_ok(), "one node refuses because of a mark, and one does not answer");
}

#[test]
fn waiter_is_named() {
    let fixture = Fixture::<3>::numbered(1);
    let reader = fixture.read(0).unwrap();
    let _writer = fixture.spawn(fixture.request(1).wait(MINUTE));
    fixture.clock.advance(5 * MS);

    let refused = fixture.read(2).unwrap_err();

    let LockError::Held { owner, waiter, readers, .. } = refused.root() else {
        panic!("{refused}")
    };
    let waiter = waiter.as_ref().map(|waiter| &*waiter.owner);
    assert_eq!((owner.as_deref(), waiter, *readers), (Some("p0"), Some("p1"), 1));
    let shown = refused.to_string();
    assert!(shown.contains("the exclusive request of p1 waits and comes first"), "{shown}");
    drop(reader);
}

#[test]
fn waiting_writer_of_the_process_comes_first() {
    let fixture = Fixture::<1>::numbered(1);
    let reader = fixture.read(0).unwrap();
    let mut writer = fixture.spawn(fixture.request(0).wait(MINUTE));
    let mut late = fixture.spawn(fixture.request(0).shared().wait(MINUTE));
    assert!(!late.is_finished() && is_held(fixture.read(0)));
    fixture.clock.advance(20 * SECOND);
    assert!(!late.is_finished(), "a renewal lets no reader past it");
    drop(reader);
    fixture.clock.advance(20 * MS);
    drop(granted(&mut writer));
    fixture.clock.advance(20 * MS);
    drop(granted(&mut late));
}

#[test]
fn lease_is_shared_again_once_no_writer_asks() {
    let fixture = Fixture::<2>::numbered(1);
    let reader = fixture.read(0).unwrap();
    let mut writer = fixture.spawn(fixture.request(1).wait(5 * SECOND));
    fixture.clock.advance(5 * MS);
    let mut late = fixture.spawn(fixture.request(0).shared().wait(MINUTE));
    // The writer repeats its attempts, and so asks again.
    fixture.clock.advance(4 * SECOND);
    assert!(!late.is_finished() && !writer.is_finished() && is_held(fixture.read(0)));
    fixture.clock.advance(SECOND);
    assert!(is_held(writer.take().expect("the wait is over")));
    fixture.clock.advance(2 * SECOND);
    drop(granted(&mut late));
    assert!(reader.is_valid() && fixture.read(0).is_ok());
}

#[test]
fn writer_that_retries_rarely_is_remembered() {
    let mut fixture = Fixture::<3>::numbered(1);
    let slow = fixture.nodes.replica("slow").builder().retry_delay(10 * SECOND..=20 * SECOND);
    fixture.processes[0] = slow.build().unwrap();
    let reader = fixture.read(1).unwrap();
    let mut writer = fixture.spawn(fixture.request(0).wait(MINUTE));
    for second in 1..8 {
        fixture.clock.advance(SECOND);
        assert!(is_held(fixture.read(2)), "after {second} s");
    }
    drop(reader);
    fixture.clock.advance(20 * MS);
    drop(granted(&mut writer));
}

//! Readers beside each other.

use std::{future::IntoFuture, time::Duration};

use tower_redlock::{Lock, LockRequest, error::LossCause};

use super::read_on;
use crate::{
    durations::{MINUTE, MS, SECOND},
    fixture::{Fixture, cpu_time, granted, is_held},
};

#[test]
fn readers_stand_beside_each_other() {
    let fixture = Fixture::<3>::numbered(1);
    let readers: Vec<_> = (0..6).map(|i| fixture.read(i % 3).unwrap()).collect();
    assert!(readers.iter().all(|reader| reader.is_valid() && reader.is_shared()));
    assert!(readers[0].context().is_shared());
    assert_eq!(fixture.nodes.key_counts(), [1, 1, 1]);
    assert!(is_held(fixture.write(0)) && is_held(fixture.write(1)));
    fixture.clock.advance(60 * SECOND);
    assert!(readers.iter().all(Lock::is_valid), "renewed");
    drop(readers);
    fixture.clock.settle();
    assert_eq!(fixture.nodes.key_counts(), [0, 0, 0]);
    assert!(!fixture.write(1).unwrap().is_shared());
}

#[test]
fn writer_excludes_readers() {
    let fixture = Fixture::<2>::numbered(1);
    let writer = fixture.write(0).unwrap();
    assert!(is_held(fixture.read(0)) && is_held(fixture.read(1)));
    drop(writer);
    fixture.clock.settle();
    assert!(fixture.read(0).is_ok() && fixture.read(1).is_ok());
}

#[test]
fn further_readers_of_a_process_send_nothing() {
    let fixture = Fixture::<1>::numbered(1);
    let first = fixture.read(0).unwrap();
    fixture.nodes.stop([0, 1, 2]);

    let others: Vec<_> = (0..100).map(|_| fixture.read(0).unwrap()).collect();

    assert!(others.iter().all(|other| other.remaining() == first.remaining()));
    assert!(others.iter().all(|other| other.fencing_token() == first.fencing_token()));
}

#[test]
fn release_of_one_reader_leaves_the_others() {
    let fixture = Fixture::<1>::numbered(1);
    let (first, second) = (fixture.read(0).unwrap(), fixture.read(0).unwrap());
    let context = first.context();

    drop(first);
    fixture.clock.advance(30 * SECOND);

    assert!(second.is_valid() && context.ensure_valid().is_err());
    assert!(is_held(fixture.write(0)));
    let released = fixture.clock.spawn(second.release());
    fixture.clock.settle();
    assert!(released.is_finished());
    assert!(fixture.write(0).is_ok());
}

#[test]
fn loss_reaches_every_reader() {
    let fixture = Fixture::<1>::numbered(1);
    let readers: Vec<_> = (0..3).map(|_| fixture.read(0).unwrap()).collect();
    let mut lost: Vec<_> = readers.iter().map(|r| fixture.clock.spawn(r.lost())).collect();
    fixture.nodes.stop([0, 1, 2]);

    fixture.clock.advance(11 * SECOND);

    assert!(readers.iter().all(|reader| !reader.is_valid()));
    for lost in &mut lost {
        assert!(matches!(lost.take(), Some(LossCause::Expired { .. })));
    }
    fixture.nodes.start([0, 1, 2]);
    drop(readers);
    fixture.clock.advance(SECOND);
    assert!(fixture.write(0).is_ok());
}

#[test]
fn waiting_readers_come_together() {
    let fixture = Fixture::<2>::numbered(1);
    let writer = fixture.write(0).unwrap();
    let wait = |process: usize| fixture.spawn(fixture.request(process).shared().wait(MINUTE));
    let mut readers: Vec<_> = (0..8).map(|i| wait(i % 2)).collect();

    drop(writer);
    fixture.clock.advance(50 * MS);

    let held: Vec<_> = readers.iter_mut().map(|reader| reader.take().unwrap().unwrap()).collect();
    assert!(held.iter().all(Lock::is_valid));
}

#[test]
fn tokens_order_writers_and_readers() {
    let fixture = Fixture::<2>::numbered(1);
    let mut last = 0;
    for round in 0..20 {
        let writer = fixture.write(round % 2).unwrap();
        let token = writer.fencing_token().get();
        assert!(token > last, "round {round}");
        drop(writer);
        fixture.clock.settle();
        let (one, two) = (fixture.read(0).unwrap(), fixture.read(1).unwrap());
        for reader in [&one, &two] {
            assert!(reader.fencing_token().get() >= token, "round {round}");
        }
        last = one.fencing_token().get().max(two.fencing_token().get());
        drop((one, two));
        fixture.clock.advance(MS);
    }
}

#[test]
fn reader_that_waits_is_let_in_once_the_writer_leaves() {
    let fixture = Fixture::<1>::numbered(1);
    let reader = fixture.read(0).unwrap();
    let writer = fixture.spawn(fixture.request(0).wait(SECOND));
    let mut late = fixture.spawn(fixture.request(0).shared().wait(MINUTE));
    assert!(!late.is_finished(), "the writer comes first");
    fixture.clock.advance(SECOND);
    assert!(writer.is_finished(), "its wait is over");
    fixture.clock.settle();
    drop(granted(&mut late));
    assert!(reader.is_valid());
}

#[test]
fn reader_that_waits_is_let_in_by_a_renewal() {
    let fixture = Fixture::<1>::numbered(1);
    let reader = fixture.read(0).unwrap();
    fixture.nodes.stop([0, 1, 2]);
    fixture.clock.advance(6 * SECOND);
    assert!(reader.is_valid());
    let mut late = fixture.spawn(fixture.request(0).shared().wait(MINUTE));
    assert!(!late.is_finished(), "less than half of the validity is left");
    fixture.nodes.start([0, 1, 2]);
    fixture.clock.advance(2 * SECOND);
    drop(granted(&mut late));
    assert!(reader.is_valid());
}

#[test]
fn readers_with_another_ttl_have_their_turn() {
    let fixture = Fixture::<1>::numbered(1);
    let reader = fixture.read(0).unwrap();
    let mut other = fixture.spawn(fixture.request(0).shared().ttl(5 * SECOND).wait(MINUTE));

    let reader = read_on(&fixture, reader);

    assert!(is_held(fixture.read(0)), "the other reader waits for a gap");
    drop(reader);
    fixture.clock.advance(20 * MS);
    drop(granted(&mut other));
}

#[test]
fn bad_shared_requests_are_refused() {
    let fixture = Fixture::<1>::numbered(1);
    let refusal = |request: LockRequest| fixture.done(request).unwrap_err().to_string();
    let request = || fixture.request(0).shared();

    for (request, reason) in [
        (fixture.processes[0].lock(["a", "b"]).shared(), "on one name, not on a set"),
        (request().slots(2), "slots does not apply"),
        (request().linger(SECOND), "linger does not apply"),
        (request().auto_extend(false), "auto_extend(false) does not apply"),
    ] {
        let refused = refusal(request);
        assert!(refused.contains(reason), "{refused}");
    }
}

/// Returns the processor time in which this number of readers of a process, which waited for a writer, come and
/// leave.
fn time_of_readers(readers: usize) -> Duration {
    let mut fixture = Fixture::<1>::numbered(1);
    let many = fixture.nodes.replica("many").builder().max_waiters(readers);
    fixture.processes = [many.max_waiters_in_total(readers).build().unwrap()];
    let writer = fixture.write(0).unwrap();
    let request = || fixture.request(0).shared().wait(MINUTE).into_future();
    let mut waiting: Vec<_> = (0..readers).map(|_| fixture.clock.spawn(request())).collect();
    fixture.clock.settle();
    let before = cpu_time();
    drop(writer);
    fixture.clock.advance(20 * MS);
    let come = waiting.iter_mut().map(|task| granted(task));
    let mut held: Vec<_> = come.collect();
    while held.len() > 1 {
        // In any order.
        drop(held.swap_remove(held.len() / 2));
    }
    let time = cpu_time().saturating_sub(before);
    assert!(held[0].is_valid());
    time
}

#[test]
fn many_readers_of_a_process_come_and_go() {
    // Eight times as many take about eight times as long, and sixty-four times if each looks at all others.
    let ratio = || time_of_readers(16_000).as_secs_f64() / time_of_readers(2_000).as_secs_f64();

    let least = (0..3).map(|_| ratio()).fold(f64::MAX, f64::min);

    assert!(least < 25.0, "eight times as many readers take {least:.1} times as long");
}

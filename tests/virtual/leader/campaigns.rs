//! Faults and events during a campaign.

use std::future::IntoFuture;

use tower_redlock::leader::Leadership;

use super::fixture::{FOLLOWED, Fixture, TTL};

#[test]
fn a_campaign_survives_a_missing_quorum() {
    let (fixture, [a]) = Fixture::candidates(["a"]);
    fixture.nodes.stop(0..3);
    let _run = fixture.run(&a.leader);
    fixture.clock.advance(TTL * 100);
    assert_eq!(fixture.witness.terms(), 0);
    assert_eq!(*a.leader.transitions().borrow(), Leadership::Standby { leader: None });
    fixture.nodes.start(0..3);
    fixture.clock.advance(FOLLOWED);
    assert!(a.leader.is_leader());
}

#[test]
fn candidates_of_one_process_take_turns() {
    let (fixture, [a]) = Fixture::candidates(["a"]);
    let other = a.redlock.leader("x");
    let first = fixture.run_until_dropped(&a.leader);
    let _second = fixture.run(&other);
    fixture.clock.advance(TTL * 10);
    assert!(a.leader.is_leader() && !other.is_leader());
    assert_eq!(*other.transitions().borrow(), Leadership::Standby { leader: Some("a".into()) });
    drop(first);
    fixture.clock.advance(FOLLOWED);
    assert!(other.is_leader() && !a.leader.is_leader());
    assert_eq!(fixture.witness.terms(), 2);
}

#[test]
fn full_local_queue_ends_no_campaign() {
    let (fixture, [a]) = Fixture::candidates(["a"]);
    let builder = a.replica.builder().max_waiters(1);
    let redlock = builder.build().unwrap();
    let mut held = fixture
        .clock
        .spawn(redlock.lock(tower_redlock::Resource::of_leader("x").unwrap()).into_future());
    fixture.clock.settle();
    let held = held.take().unwrap().unwrap();
    let waiting = fixture.clock.spawn(
        redlock.lock(tower_redlock::Resource::of_leader("x").unwrap()).wait(TTL * 2).into_future(),
    );
    fixture.clock.settle();
    let leader = redlock.leader("x");
    let _run = fixture.run(&leader);
    fixture.clock.advance(TTL);
    drop(held);
    fixture.clock.advance(TTL);
    assert!(waiting.is_finished());
    drop(waiting);
    fixture.clock.advance(FOLLOWED);
    assert!(leader.is_leader());
}

#[test]
fn inspect_shows_the_leader() {
    let (fixture, [a, b]) = Fixture::candidates(["a", "b"]);
    let _run = fixture.run(&a.leader);
    let Leadership::Leading { token, .. } = *a.leader.transitions().borrow() else { panic!() };
    let mut found =
        fixture.clock.spawn(async move { b.redlock.inspect("leader:x").await.unwrap().unwrap() });
    fixture.clock.settle();
    let found = found.take().unwrap();
    assert_eq!(found.owner.as_deref(), Some("a"));
    assert_eq!(found.token, token);
}

#[test]
fn same_leader_sends_no_transition() {
    let (fixture, [a, b]) = Fixture::candidates(["a", "b"]);
    let (_a, _b) = (fixture.run(&a.leader), fixture.run(&b.leader));
    fixture.clock.advance(TTL);
    let mut transitions = b.leader.transitions();
    transitions.mark_unchanged();
    fixture.clock.advance(TTL * 10);
    assert!(!transitions.has_changed().unwrap());
}

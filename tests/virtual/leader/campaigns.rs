//! Faults and events during a campaign.

use std::future::IntoFuture;

use tower_redlock::leader::Leadership;

use super::scene::{FOLLOWED, Scene, TTL};

#[test]
fn a_campaign_survives_a_missing_quorum() {
    let scene = Scene::new();
    let a = scene.candidate("a");
    scene.nodes.stop(0..3);
    let _run = scene.run(&a.leader);
    scene.clock.advance(TTL * 100);
    assert_eq!(scene.witness.terms(), 0);
    assert_eq!(*a.leader.transitions().borrow(), Leadership::Standby { leader: None });
    scene.nodes.start(0..3);
    scene.clock.advance(FOLLOWED);
    assert!(a.leader.is_leader());
}

#[test]
fn candidates_of_one_process_take_turns() {
    let scene = Scene::new();
    let a = scene.candidate("a");
    let other = a.redlock.leader("x");
    let first = scene.run_until_dropped(&a.leader);
    let _second = scene.run(&other);
    scene.clock.advance(TTL * 10);
    assert!(a.leader.is_leader() && !other.is_leader());
    assert_eq!(*other.transitions().borrow(), Leadership::Standby { leader: Some("a".into()) });
    drop(first);
    scene.clock.advance(FOLLOWED);
    assert!(other.is_leader() && !a.leader.is_leader());
    assert_eq!(scene.witness.terms(), 2);
}

#[test]
fn full_local_queue_ends_no_campaign() {
    let scene = Scene::new();
    let a = scene.candidate("a");
    let builder = a.replica.builder().max_waiters(1);
    let redlock = builder.build().unwrap();
    let mut held = scene
        .clock
        .spawn(redlock.lock(tower_redlock::Resource::of_leader("x").unwrap()).into_future());
    scene.clock.settle();
    let held = held.take().unwrap().unwrap();
    let waiting = scene.clock.spawn(
        redlock.lock(tower_redlock::Resource::of_leader("x").unwrap()).wait(TTL * 2).into_future(),
    );
    scene.clock.settle();
    let leader = redlock.leader("x");
    let _run = scene.run(&leader);
    scene.clock.advance(TTL);
    drop(held);
    scene.clock.advance(TTL);
    assert!(waiting.is_finished());
    drop(waiting);
    scene.clock.advance(FOLLOWED);
    assert!(leader.is_leader());
}

#[test]
fn inspect_shows_the_leader() {
    let scene = Scene::new();
    let (a, b) = (scene.candidate("a"), scene.candidate("b"));
    let _run = scene.run(&a.leader);
    let Leadership::Leading { token, .. } = *a.leader.transitions().borrow() else { panic!() };
    let mut found =
        scene.clock.spawn(async move { b.redlock.inspect("leader:x").await.unwrap().unwrap() });
    scene.clock.settle();
    let found = found.take().unwrap();
    assert_eq!(found.owner.as_deref(), Some("a"));
    assert_eq!(found.token, token);
}

#[test]
fn same_leader_sends_no_transition() {
    let scene = Scene::new();
    let (a, b) = (scene.candidate("a"), scene.candidate("b"));
    let (_a, _b) = (scene.run(&a.leader), scene.run(&b.leader));
    scene.clock.advance(TTL);
    let mut transitions = b.leader.transitions();
    transitions.mark_unchanged();
    scene.clock.advance(TTL * 10);
    assert!(!transitions.has_changed().unwrap());
}

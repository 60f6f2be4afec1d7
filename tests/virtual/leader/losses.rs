//! A leader behind a partition.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tower_redlock::{error::LossCause, leader::Leadership, time::Clock};

use super::scene::{FOLLOWED, Scene, TTL};

#[test]
fn partitioned_leader_stops_before_next_leads() {
    let scene = Scene::new();
    let (a, b) = (scene.candidate("a"), scene.candidate("b"));
    let causes = Arc::new(Mutex::new(Vec::new()));
    let leader = {
        let (causes, witness) = (Arc::clone(&causes), scene.witness.clone());
        let transitions = a.leader.transitions();
        a.leader.clone().on_lost(move |cause| {
            assert!(witness.is_empty(), "the work was dropped before");
            assert_eq!(*transitions.borrow(), Leadership::Standby { leader: None });
            causes.lock().unwrap().push(cause);
        })
    };
    let _a = scene.run(&leader);
    let _b = scene.run(&b.leader.clone().resign_grace(Duration::ZERO));
    let mut transitions = a.leader.transitions();
    assert!(matches!(*transitions.borrow_and_update(), Leadership::Leading { .. }));

    a.replica.partition(0..3);
    let cut_off = scene.clock.now();
    // The witness panics if both lead.
    scene.clock.advance(TTL + TTL / 10);
    assert!(b.leader.is_leader() && !a.leader.is_leader());
    assert!(scene.witness.elected_at() > cut_off);
    assert!(matches!(causes.lock().unwrap()[..], [LossCause::Expired { .. }]));
    assert_eq!(*transitions.borrow_and_update(), Leadership::Standby { leader: None });

    // The candidate is on standby, and leads again after a resignation.
    a.replica.heal(0..3);
    scene.clock.advance(FOLLOWED);
    let owner = Some("b".into());
    assert_eq!(*transitions.borrow_and_update(), Leadership::Standby { leader: owner });
    let _resigned = scene.clock.spawn(async move { b.leader.resign().await });
    scene.clock.advance(FOLLOWED);
    assert!(a.leader.is_leader());
    assert_eq!(scene.witness.terms(), 3);
    assert_eq!(causes.lock().unwrap().len(), 1);
}

#[test]
fn next_campaign_awaits_on_lost() {
    let scene = Scene::new();
    let a = scene.candidate("a");
    let clock = scene.clock.clone();
    let leader = a.leader.clone().on_lost(move |_| clock.sleep(TTL * 3));
    let _run = scene.run(&leader);
    a.replica.partition(0..5);
    scene.clock.advance(TTL);
    a.replica.heal(0..5);
    scene.clock.advance(TTL * 2);
    assert!(!a.leader.is_leader());
    scene.clock.advance(TTL);
    assert!(a.leader.is_leader());
}

/// The run is not polled while the clock leaps.
#[test]
fn no_leadership_after_validity() {
    let scene = Scene::new();
    let a = scene.candidate("a");
    let mut run = Box::pin(a.leader.run(scene.witness.work()));
    let waker = std::task::Waker::noop();
    assert!(run.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
    assert!(a.leader.is_leader());
    scene.clock.leap(TTL);
    assert!(!a.leader.is_leader());
    assert!(!scene.witness.is_empty(), "the run was not polled");
    assert!(run.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
    assert_eq!(scene.witness.terms(), 2, "the first term's work was dropped");
}

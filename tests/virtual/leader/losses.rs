//! A leader behind a partition.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tower_redlock::{error::LossCause, leader::Leadership, time::Clock};

use super::fixture::{FOLLOWED, Fixture, TTL};

#[test]
fn partitioned_leader_stops_before_next_leads() {
    let (fixture, [a, b]) = Fixture::candidates(["a", "b"]);
    let causes = Arc::new(Mutex::new(Vec::new()));
    let leader = {
        let (causes, witness) = (Arc::clone(&causes), fixture.witness.clone());
        let transitions = a.leader.transitions();
        a.leader.clone().on_lost(move |cause| {
            assert!(witness.is_empty(), "the work was dropped before");
            assert_eq!(*transitions.borrow(), Leadership::Standby { leader: None });
            causes.lock().unwrap().push(cause);
        })
    };
    let _a = fixture.run(&leader);
    let _b = fixture.run(&b.leader.clone().resign_grace(Duration::ZERO));
    let mut transitions = a.leader.transitions();
    assert!(matches!(*transitions.borrow_and_update(), Leadership::Leading { .. }));
    a.replica.partition(0..3);
    let cut_off = fixture.clock.now();
    // The witness panics if both lead.
    fixture.clock.advance(TTL + TTL / 10);
    assert!(b.leader.is_leader() && !a.leader.is_leader());
    assert!(fixture.witness.elected_at() > cut_off);
    assert!(matches!(causes.lock().unwrap()[..], [LossCause::Expired { .. }]));
    assert_eq!(*transitions.borrow_and_update(), Leadership::Standby { leader: None });
    // The candidate is on standby, and leads again after a resignation.
    a.replica.heal(0..3);
    fixture.clock.advance(FOLLOWED);
    let owner = Some("b".into());
    assert_eq!(*transitions.borrow_and_update(), Leadership::Standby { leader: owner });
    let _resigned = fixture.clock.spawn(async move { b.leader.resign().await });
    fixture.clock.advance(FOLLOWED);
    assert!(a.leader.is_leader());
    assert_eq!(fixture.witness.terms(), 3);
    assert_eq!(causes.lock().unwrap().len(), 1);
}

#[test]
fn next_campaign_awaits_on_lost() {
    let (fixture, [a]) = Fixture::candidates(["a"]);
    let clock = fixture.clock.clone();
    let leader = a.leader.clone().on_lost(move |_| clock.sleep(TTL * 3));
    let _run = fixture.run(&leader);
    a.replica.partition(0..5);
    fixture.clock.advance(TTL);
    a.replica.heal(0..5);
    fixture.clock.advance(TTL * 2);
    assert!(!a.leader.is_leader());
    fixture.clock.advance(TTL);
    assert!(a.leader.is_leader());
}

/// The run is not polled while the clock leaps.
#[test]
fn no_leadership_after_validity() {
    let (fixture, [a]) = Fixture::candidates(["a"]);
    let mut run = Box::pin(a.leader.run(fixture.witness.work()));
    let waker = std::task::Waker::noop();
    assert!(run.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
    assert!(a.leader.is_leader());
    fixture.clock.leap(TTL);
    assert!(!a.leader.is_leader());
    assert!(!fixture.witness.is_empty(), "the run was not polled");
    assert!(run.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
    assert_eq!(fixture.witness.terms(), 2, "the first term's work was dropped");
}

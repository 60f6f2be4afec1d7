//! Resignation of a leader.

use std::time::Duration;

use tower_redlock::{Leader, Term, leader::Leadership, testing::Task};

use super::scene::{FOLLOWED, Scene, TTL};

const MS: Duration = Duration::from_millis(1);

fn resign(scene: &Scene, leader: &Leader) -> Task<()> {
    let leader = leader.clone();
    let task = scene.clock.spawn(async move { leader.resign().await });
    scene.clock.settle();
    task
}

#[test]
fn resigning_without_leading_returns_at_once() {
    let scene = Scene::new();
    let (a, b) = (scene.candidate("a"), scene.candidate("b"));
    assert!(resign(&scene, &a.leader).is_finished());
    let _a = scene.run(&a.leader);
    let _b = scene.run(&b.leader);
    assert!(resign(&scene, &b.leader).is_finished());
    assert!(a.leader.is_leader());
}

#[test]
fn stopping_work_returns_its_output() {
    let scene = Scene::new();
    let (a, b) = (scene.candidate("a"), scene.candidate("b"));
    let clock = scene.clock.clone();
    let tidy_up = Duration::from_secs(2);
    let mut run = scene.clock.spawn(a.leader.run(move |term: Term| {
        let clock = clock.clone();
        async move {
            term.stopping().await;
            clock.sleep(tidy_up).await;
            term.ensure_valid().is_ok()
        }
    }));
    scene.clock.settle();
    let _b = scene.run(&b.leader);
    let resigned = resign(&scene, &a.leader);
    assert!(!resigned.is_finished(), "the work is still stopping");
    assert!(a.leader.is_leader());
    scene.clock.advance(tidy_up);
    assert!(resigned.is_finished());
    assert_eq!(run.take(), Some(Ok(Some(true))));
    assert_eq!(*a.leader.transitions().borrow(), Leadership::NotRunning);
    scene.clock.advance(FOLLOWED);
    assert!(b.leader.is_leader());
}

#[test]
fn grace_ends_work_that_continues() {
    let scene = Scene::new();
    let a = scene.candidate("a");
    // Longer than the validity without a renewal.
    let grace = TTL * 3;
    let run = scene.run(&a.leader.clone().resign_grace(grace));
    let resigned = resign(&scene, &a.leader);
    scene.clock.advance(grace.saturating_sub(Duration::from_millis(1)));
    assert!(!resigned.is_finished());
    assert!(a.leader.is_leader() && !scene.witness.is_empty());
    scene.clock.advance(Duration::from_millis(1));
    assert!(resigned.is_finished());
    assert!(!a.leader.is_leader() && scene.witness.is_empty());
    assert_eq!(scene.nodes.key_counts(), [0; 5], "released");
    assert!(!run.is_finished());
}

#[test]
fn resigned_candidate_pauses_for_a_ttl() {
    let scene = Scene::new();
    let a = scene.candidate("a");
    let _run = scene.run(&a.leader.clone().resign_grace(Duration::ZERO));
    let resigned = resign(&scene, &a.leader);
    assert!(resigned.is_finished());
    scene.clock.advance(TTL.saturating_sub(Duration::from_millis(1)));
    assert_eq!(scene.witness.terms(), 1);
    scene.clock.advance(Duration::from_millis(1));
    assert_eq!(scene.witness.terms(), 2);
    assert!(a.leader.is_leader());
}

/// Work that ends on request ends the run; the next run pauses as well.
#[test]
fn next_run_pauses_too() {
    let scene = Scene::new();
    let a = scene.candidate("a");
    let stops = |term: Term| async move { term.stopping().await };
    let mut first = scene.clock.spawn(a.leader.run(stops));
    scene.clock.settle();
    assert!(resign(&scene, &a.leader).is_finished());
    assert_eq!(first.take(), Some(Ok(Some(()))));
    let _again = scene.run(&a.leader);
    scene.clock.advance(TTL.saturating_sub(MS));
    assert!(!a.leader.is_leader(), "the pause lasts a TTL");
    scene.clock.advance(MS);
    assert!(a.leader.is_leader());
}

/// Another candidate has led: the pause ends.
#[test]
fn pause_ends_with_another_leader() {
    let scene = Scene::new();
    let (a, b) = (scene.candidate("a"), scene.candidate("b"));
    let _a = scene.run(&a.leader.clone().resign_grace(Duration::ZERO));
    let b_runs = scene.run_until_dropped(&b.leader);
    scene.clock.advance(TTL);
    assert!(resign(&scene, &a.leader).is_finished());
    scene.clock.advance(TTL / 10);
    assert!(b.leader.is_leader());
    let owner = Some("b".into());
    assert_eq!(*a.leader.transitions().borrow(), Leadership::Standby { leader: owner });
    drop(b_runs);
    scene.clock.advance(TTL / 100);
    assert!(a.leader.is_leader(), "the pause lasted a TTL");
}

#[test]
fn resignation_behind_partition_ends_with_term() {
    let scene = Scene::new();
    let a = scene.candidate("a");
    let _run = scene.run(&a.leader.clone().resign_grace(TTL * 3));
    a.replica.partition(0..5);
    let resigned = resign(&scene, &a.leader);
    scene.clock.advance(TTL);
    assert!(resigned.is_finished());
    assert!(scene.witness.is_empty());
    // The pause after the resignation still applies.
    a.replica.heal(0..5);
    scene.clock.advance(TTL / 2);
    assert_eq!(scene.witness.terms(), 1);
    scene.clock.advance(TTL);
    assert!(a.leader.is_leader());
}

#[test]
fn no_leadership_during_release() {
    let scene = Scene::new();
    let a = scene.candidate("a");
    let _run = scene.run(&a.leader.clone().resign_grace(Duration::ZERO));
    scene.nodes.freeze(0..5);
    let resigned = resign(&scene, &a.leader);
    assert!(scene.witness.is_empty() && !resigned.is_finished());
    assert!(!a.leader.is_leader());
    assert_eq!(*a.leader.transitions().borrow(), Leadership::Standby { leader: None });
    scene.nodes.thaw(0..5);
    scene.clock.settle();
    assert!(resigned.is_finished());
}

//! A candidate that is stopped.

use std::time::Duration;

use tower_redlock::{Leader, Term, leader::Leadership, testing::Task};

use super::scene::{Scene, TTL};

const AT_ONCE: Duration = Duration::from_millis(10);

fn stop(scene: &Scene, leader: &Leader) -> Task<()> {
    let leader = leader.clone();
    let task = scene.clock.spawn(async move { leader.stop().await });
    scene.clock.settle();
    task
}

#[test]
fn stopped_campaign_ends_at_once() {
    let scene = Scene::new();
    let (a, b) = (scene.candidate("a"), scene.candidate("b"));
    let a_runs = scene.run_until_dropped(&a.leader);
    let mut run = scene.run(&b.leader);
    assert!(stop(&scene, &b.leader).is_finished());
    assert_eq!(run.take(), Some(Ok(None)));
    assert_eq!(*b.leader.transitions().borrow(), Leadership::NotRunning);
    drop(a_runs);
    scene.clock.advance(TTL * 2);
    assert_eq!(scene.witness.terms(), 1);
    assert_eq!(scene.nodes.key_counts(), [0; 5]);
}

#[test]
fn stopping_work_returns_its_output() {
    let scene = Scene::new();
    let (a, b) = (scene.candidate("a"), scene.candidate("b"));
    let mut run = scene.clock.spawn(a.leader.run(|term: Term| async move {
        term.stopping().await;
        term.ensure_valid().is_ok()
    }));
    scene.clock.settle();
    let _b = scene.run(&b.leader);
    assert!(stop(&scene, &a.leader).is_finished());
    assert_eq!(run.take(), Some(Ok(Some(true))));
    scene.clock.advance(AT_ONCE);
    assert!(b.leader.is_leader());
}

#[test]
fn grace_ends_work_that_continues() {
    let scene = Scene::new();
    let a = scene.candidate("a");
    let grace = Duration::from_secs(3);
    let mut run = scene.run(&a.leader.clone().resign_grace(grace));
    let stopped = stop(&scene, &a.leader);
    scene.clock.advance(grace.saturating_sub(Duration::from_millis(1)));
    assert!(!stopped.is_finished() && a.leader.is_leader());
    scene.clock.advance(Duration::from_millis(1));
    assert!(stopped.is_finished() && scene.witness.is_empty());
    assert_eq!(run.take(), Some(Ok(None)));
    assert_eq!(scene.nodes.key_counts(), [0; 5], "released");
}

#[test]
fn a_stopped_candidate_stays_stopped() {
    let scene = Scene::new();
    let a = scene.candidate("a");
    // No run is under way, so stop() returns at once.
    assert!(stop(&scene, &a.leader).is_finished());
    assert_eq!(scene.run(&a.leader.clone()).take(), Some(Ok(None)));
    let mut again =
        scene.clock.spawn(a.leader.run_until_stopped(|_| async { Ok::<_, String>(()) }));
    scene.clock.settle();
    assert_eq!(again.take(), Some(Ok(())));
    assert_eq!(scene.witness.terms(), 0);
    let other = a.redlock.leader("x");
    let _run = scene.run(&other);
    assert!(other.is_leader(), "a new one is not stopped");
}

#[test]
fn pause_after_resigning_ends_at_once() {
    let scene = Scene::new();
    let a = scene.candidate("a");
    let mut run = scene.run(&a.leader.clone().resign_grace(Duration::ZERO));
    let leader = a.leader.clone();
    let _resigned = scene.clock.spawn(async move { leader.resign().await });
    scene.clock.advance(TTL / 2);
    assert!(!a.leader.is_leader());
    assert!(stop(&scene, &a.leader).is_finished());
    assert_eq!(run.take(), Some(Ok(None)));
}

/// The candidate waits for the work, which waits for the candidate.
#[test]
fn work_ends_its_own_candidacy() {
    for resigns in [false, true] {
        let scene = Scene::new();
        let a = scene.candidate("a");
        let own = a.leader.clone();
        let mut run = scene.clock.spawn(a.leader.run(move |term: Term| {
            let own = own.clone();
            async move {
                if resigns {
                    own.resign().await;
                } else {
                    own.stop().await;
                }
                term.stopping().await;
                term.ensure_valid().is_ok()
            }
        }));

        scene.clock.advance(AT_ONCE);

        assert_eq!(run.take(), Some(Ok(Some(true))), "resigns: {resigns}");
        assert!(!a.leader.is_leader());
    }
}

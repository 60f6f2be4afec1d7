//! Candidates that campaign again after their work has returned.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tower_redlock::{Leader, LockError, Term, testing::Task};

use super::scene::{Scene, TTL};

const SECOND: Duration = Duration::from_secs(1);

/// Work that fails at once while something is broken.
struct FailingWork {
    is_broken: Arc<AtomicBool>,
    terms: Arc<AtomicUsize>,
}

impl FailingWork {
    fn new() -> Self {
        Self { is_broken: Arc::new(AtomicBool::new(true)), terms: Arc::default() }
    }

    fn terms(&self) -> usize {
        self.terms.load(Ordering::SeqCst)
    }

    fn run(&self, scene: &Scene, leader: &Leader) -> Task<Result<(), LockError>> {
        let (is_broken, terms) = (Arc::clone(&self.is_broken), Arc::clone(&self.terms));
        let witness = scene.witness.clone();
        let task = scene.clock.spawn(leader.run_until_stopped(move |term: Term| {
            let (is_broken, inside) = (Arc::clone(&is_broken), witness.enter(&term));
            terms.fetch_add(1, Ordering::SeqCst);
            async move {
                let _inside = inside;
                if is_broken.load(Ordering::SeqCst) {
                    return Err("the database is down");
                }
                term.stopping().await;
                Ok(())
            }
        }));
        scene.clock.settle();
        task
    }
}

#[test]
fn failing_work_restarts_with_growing_pauses() {
    let scene = Scene::new();
    let broken = FailingWork::new();
    let (a, b) = (scene.candidate("a"), scene.candidate("b"));
    let mut runs = [broken.run(&scene, &a.leader), broken.run(&scene, &b.leader)];
    // Pauses of 0.5 to 1 s, 1 to 2 s, and so on up to a minute, for each of the two.
    scene.clock.advance(60 * SECOND);
    let first = broken.terms();
    assert!((10..=16).contains(&first), "{first} terms in the first minute");
    scene.clock.advance(600 * SECOND);
    let later = broken.terms() - first;
    assert!((20..=42).contains(&later), "{later} terms in ten minutes");
    assert!(runs.iter().all(|run| !run.is_finished()));

    broken.is_broken.store(false, Ordering::SeqCst);
    scene.clock.advance(61 * SECOND);
    assert!(a.leader.is_leader() || b.leader.is_leader());
    for leader in [&a.leader, &b.leader] {
        let leader = leader.clone();
        let stopped = scene.clock.spawn(async move { leader.stop().await });
        scene.clock.settle();
        assert!(stopped.is_finished());
    }
    assert!(runs.iter_mut().all(|run| run.take() == Some(Ok(()))));
}

#[test]
fn another_candidate_leads_during_the_pause() {
    let scene = Scene::new();
    let broken = FailingWork::new();
    let (a, b) = (scene.candidate("a"), scene.candidate("b"));
    let _a = broken.run(&scene, &a.leader);
    assert_eq!(broken.terms(), 1);
    let _b = scene.run(&b.leader);
    assert!(b.leader.is_leader());
    scene.clock.advance(TTL);
    assert_eq!(broken.terms(), 1);
}

/// Also `Ok` is followed by a pause.
#[test]
fn successful_work_pauses_too() {
    let scene = Scene::new();
    let a = scene.candidate("a");
    let terms = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&terms);
    let _run = scene.clock.spawn(a.leader.run_until_stopped(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok::<_, String>(()) }
    }));
    scene.clock.advance(7 * SECOND);
    let terms = terms.load(Ordering::SeqCst);
    assert!((3..=5).contains(&terms), "{terms}");
}

#[test]
fn manager_shutdown_ends_the_pause() {
    let scene = Scene::new();
    let broken = FailingWork::new();
    let a = scene.candidate("a");
    let mut run = broken.run(&scene, &a.leader);
    let _down = scene.clock.spawn(async move { a.redlock.shutdown().await });
    scene.clock.advance(2 * SECOND);
    assert_eq!(run.take(), Some(Err(LockError::Closed)));
}

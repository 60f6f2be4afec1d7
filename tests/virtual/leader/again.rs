//! Candidates that campaign again after their work has returned.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use tower_redlock::{Leader, LockError, Term, testing::Task};

use super::fixture::{Fixture, TTL};
use crate::durations::SECOND;

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

    fn run(&self, fixture: &Fixture, leader: &Leader) -> Task<Result<(), LockError>> {
        let (is_broken, terms) = (Arc::clone(&self.is_broken), Arc::clone(&self.terms));
        let witness = fixture.witness.clone();
        let task = fixture.clock.spawn(leader.run_until_stopped(move |term: Term| {
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
        fixture.clock.settle();
        task
    }
}

#[test]
fn failing_work_restarts_with_growing_pauses() {
    let fixture = Fixture::new();
    let broken = FailingWork::new();
    let (a, b) = (fixture.candidate("a"), fixture.candidate("b"));
    let mut runs = [broken.run(&fixture, &a.leader), broken.run(&fixture, &b.leader)];
    // Pauses of 0.5 to 1 s, 1 to 2 s, and so on up to a minute, for each of the two.
    fixture.clock.advance(60 * SECOND);
    let first = broken.terms();
    assert!((10..=16).contains(&first), "{first} terms in the first minute");
    fixture.clock.advance(600 * SECOND);
    let later = broken.terms() - first;
    assert!((20..=42).contains(&later), "{later} terms in ten minutes");
    assert!(runs.iter().all(|run| !run.is_finished()));
    broken.is_broken.store(false, Ordering::SeqCst);
    fixture.clock.advance(61 * SECOND);
    assert!(a.leader.is_leader() || b.leader.is_leader());
    for leader in [&a.leader, &b.leader] {
        assert!(fixture.stop(leader).is_finished());
    }
    assert!(runs.iter_mut().all(|run| run.take() == Some(Ok(()))));
}

#[test]
fn another_candidate_leads_during_the_pause() {
    let fixture = Fixture::new();
    let broken = FailingWork::new();
    let (a, b) = (fixture.candidate("a"), fixture.candidate("b"));
    let _a = broken.run(&fixture, &a.leader);
    assert_eq!(broken.terms(), 1);
    let _b = fixture.run(&b.leader);
    assert!(b.leader.is_leader());
    fixture.clock.advance(TTL);
    assert_eq!(broken.terms(), 1);
}

/// Also `Ok` is followed by a pause.
#[test]
fn successful_work_pauses_too() {
    let (fixture, [a]) = Fixture::candidates(["a"]);
    let terms = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&terms);
    let _run = fixture.clock.spawn(a.leader.run_until_stopped(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok::<_, String>(()) }
    }));
    fixture.clock.advance(7 * SECOND);
    let terms = terms.load(Ordering::SeqCst);
    assert!((3..=5).contains(&terms), "{terms}");
}

#[test]
fn manager_shutdown_ends_the_pause() {
    let fixture = Fixture::new();
    let broken = FailingWork::new();
    let a = fixture.candidate("a");
    let mut run = broken.run(&fixture, &a.leader);
    let _down = fixture.clock.spawn(async move { a.redlock.shutdown().await });
    fixture.clock.advance(2 * SECOND);
    assert_eq!(run.take(), Some(Err(LockError::Closed)));
}

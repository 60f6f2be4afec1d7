//! Ends of a run.

use std::time::Duration;

use tower_redlock::{LockError, Term, leader::Leadership};

use super::fixture::{FOLLOWED, Fixture, TTL};
use crate::scheduler::log_lines::Lines;

#[test]
fn finished_work_releases_and_ends_run() {
    let (fixture, [a, b]) = Fixture::candidates(["a", "b"]);
    let clock = fixture.clock.clone();
    let mut run = fixture.clock.spawn(a.leader.run(move |term: Term| {
        let sleep = clock.sleep(FOLLOWED);
        async move {
            sleep.await;
            term.fencing_token()
        }
    }));
    fixture.clock.settle();
    let _b = fixture.run(&b.leader);
    fixture.clock.advance(FOLLOWED);
    let token = run.take().unwrap().unwrap().expect("the work returned");
    assert!(token.get() > 0);
    assert_eq!(*a.leader.transitions().borrow(), Leadership::NotRunning);
    assert!(!a.leader.is_leader());
    fixture.clock.advance(FOLLOWED);
    assert!(b.leader.is_leader());
}

struct ChecksOnDrop(Term);

impl Drop for ChecksOnDrop {
    fn drop(&mut self) {
        self.0.ensure_valid().expect("the work is dropped before the release");
    }
}

#[test]
fn dropped_run_drops_work_before_release() {
    let (fixture, [a]) = Fixture::candidates(["a"]);
    let mut run = Box::pin(a.leader.run(|term| async move {
        let _checks = ChecksOnDrop(term);
        std::future::pending::<()>().await;
    }));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(run.as_mut().poll(&mut cx).is_pending());
    assert!(a.leader.is_leader());
    assert_eq!(fixture.nodes.key_counts(), [1; 5]);
    drop(run);
    assert_eq!(fixture.nodes.key_counts(), [0; 5]);
    assert!(!a.leader.is_leader());
    assert_eq!(*a.leader.transitions().borrow(), Leadership::NotRunning);
    // The candidate may run again.
    let _again = fixture.run(&a.leader);
    assert!(a.leader.is_leader());
}

#[test]
fn manager_shutdown_ends_campaigns_not_terms() {
    let (fixture, [a, b]) = Fixture::candidates(["a", "b"]);
    let leading = fixture.run(&a.leader);
    let mut campaigning = fixture.run(&b.leader);
    let _down = fixture.clock.spawn(async move {
        a.redlock.shutdown().await;
        b.redlock.shutdown().await;
    });
    fixture.clock.advance(FOLLOWED);
    assert_eq!(campaigning.take(), Some(Err(LockError::Closed)));
    assert!(a.leader.is_leader() && !leading.is_finished());
}

/// Returns why a term has ended, as it is logged.
fn logged_end(work: impl Fn(Fixture) + Send) -> String {
    let mut found = String::new();
    Lines::during(|lines| {
        work(Fixture::new());
        let ends = lines.take("INFO");
        found = ends.into_iter().find(|line| line.contains("leads no more")).unwrap_or_default();
    });
    found
}

#[test]
fn end_names_its_cause() {
    let returned = logged_end(|fixture| {
        let a = fixture.candidate("a");
        let mut run = fixture.clock.spawn(a.leader.run(|_| async {}));
        fixture.clock.advance(FOLLOWED);
        assert!(run.take().is_some());
    });
    let away = logged_end(|fixture| {
        let a = fixture.candidate("a");
        let work = |term: Term| async move { term.stopping().await };
        let mut run = fixture.clock.spawn(a.leader.run(work));
        fixture.clock.settle();
        fixture.nodes.stop(0..5);
        fixture.clock.advance(TTL);
        assert!(run.take().is_some());
    });
    let limited = logged_end(|fixture| {
        let a = fixture.candidate("a");
        let work = |term: Term| async move { term.stopping().await };
        let options = tower_redlock::LockOptions::new().max_hold(Duration::from_secs(60));
        let mut run = fixture.clock.spawn(a.leader.options(options).run(work));
        fixture.clock.advance(Duration::from_secs(61));
        assert!(run.take().is_some());
    });
    assert!(returned.contains("the work returned"), "{returned}");
    assert!(away.contains("the lock was not renewed"), "{away}");
    assert!(limited.contains("max_hold"), "{limited}");
}

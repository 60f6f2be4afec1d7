//! Jobs that are forgotten.

use std::time::Duration;

use futures_util::TryStreamExt as _;
use tower_redlock::{LockError, Schedule, node::Op, scheduler::ControlError};

use crate::scheduler::{
    fixture::{Fixture, Host, SECOND},
    wire::Fate,
};

fn forget(fixture: &Fixture, host: &Host) -> Result<bool, ControlError> {
    let redlock = host.redlock.clone();
    fixture.done(async move { redlock.forget_job("j").await })
}

/// What the nodes keep of the job.
fn kept(fixture: &Fixture, host: &Host) -> (usize, bool, usize) {
    let redlock = host.redlock.clone();
    fixture.done(async move {
        let claimed: Vec<_> = redlock.claimed_jobs().try_collect().await.unwrap();
        let control = redlock.job_control("j").await.unwrap();
        let history = redlock.job_history("j").await.unwrap();
        (claimed.len(), control.paused.is_some(), history.len())
    })
}

#[test]
fn removed_job_is_forgotten() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = || host.job("j", Schedule::every(10 * SECOND), 2 * SECOND);
    let jobs = host.start([job()]);
    fixture.advance(15 * SECOND);
    fixture.done(host.redlock.pause_job("j")).unwrap();
    assert_eq!(kept(&fixture, &host), (1, true, 1), "documents are not listed as jobs");
    let handle = jobs.handle.clone();
    fixture.done(async move { handle.remove("j").await }).unwrap();
    assert_eq!(forget(&fixture, &host), Ok(true));
    assert_eq!(kept(&fixture, &host), (0, false, 0));
    assert_eq!(forget(&fixture, &host), Ok(false));
    jobs.handle.add(job()).unwrap();
    fixture.advance(10 * SECOND);
    assert_eq!(fixture.log.entries().len(), 2, "it begins anew");
}

#[test]
fn running_job_is_not_forgotten() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let _jobs = a.start([a.job("j", Schedule::every(10 * SECOND), 5 * SECOND)]);
    fixture.advance(11 * SECOND);
    let error = forget(&fixture, &b).unwrap_err();
    let ControlError::Nodes { error: cause, .. } = &error else { panic!("{error}") };
    let is_held = matches!(**cause, LockError::Held { .. });
    assert!(is_held, "{error}");
    assert_eq!(kept(&fixture, &b).0, 1);
}

#[test]
fn error_names_unconfirmed_nodes() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let jobs = a.start([a.job("j", Schedule::every(10 * SECOND), Duration::ZERO)]);
    fixture.advance(15 * SECOND);
    let handle = jobs.handle.clone();
    fixture.done(async move { handle.remove("j").await }).unwrap();
    b.wire.apply(Fate::Refused, |node, op| matches!(op, Op::ForgetJob(_) if node == 3));
    let error = forget(&fixture, &b).unwrap_err();
    let ControlError::Incomplete { votes, .. } = &error else { panic!("{error}") };
    let name = b.redlock.nodes()[3].name().to_string();
    assert!(error.to_string().contains(&name), "{error}");
    assert_eq!(votes.iter().count(), 5);
    b.wire.calm();
    assert_eq!(forget(&fixture, &b), Ok(true), "the rest of it");
    assert_eq!(forget(&fixture, &b), Ok(false));
}

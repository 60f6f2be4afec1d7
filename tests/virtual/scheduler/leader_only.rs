//! Schedulers whose jobs run on the leader only.

use std::{sync::Arc, time::Duration};

use tower_redlock::{
    Schedule,
    node::{AcquireOp, ExtendOp, Op},
    scheduler::{Claim, JobCounts, JobState, Missed, ShutdownReport, SkipReason},
};

use crate::scheduler::{
    blocking::{blocking_job, wait_for},
    fixture::{Fixture, Host, MS, RunningScheduler, SECOND, TTL, with_timeout},
    wire::Fate,
};

const HOUR: u32 = 3600;

/// Refuses operations of the leader's lock, while the jobs' locks are renewed.
fn lose_leadership(host: &Host) {
    host.wire.judge(|_, op| match op {
        Op::Acquire(AcquireOp { lease, .. }) | Op::Extend(ExtendOp { lease, .. })
            if lease.resource().to_string() == "leader:x" =>
        {
            Fate::Refused
        }
        _ => Fate::Passes,
    });
}

fn counts(jobs: &RunningScheduler) -> JobCounts {
    jobs.status("j").counts
}

#[test]
fn next_leader_continues_the_ticks() {
    let fixture = Fixture::new();
    let job = |host: &Host| {
        host.job("j", Schedule::every(10 * SECOND), SECOND)
            .start_within(SECOND)
            .missed(Missed::Skip)
    };
    let [(a, at_a), (b, mut at_b)] = fixture.led(["a", "b"], job);
    b.wire.sent();
    fixture.advance(95 * SECOND);
    assert!(at_a.handle.is_active() && !at_b.handle.is_active());
    assert_eq!(fixture.log.hosts(), ["a"; 9]);
    let sent = b.wire.sent_by_kind();
    assert!(
        !sent.contains_key("prepare") && !sent.contains_key("claims"),
        "it is on standby: {sent:?}"
    );
    assert_eq!((at_b.status("j").next_tick, at_b.event_names()), (None, vec![]));
    a.crash();
    fixture.advance(TTL + TTL / 10);
    assert!(at_b.handle.is_active());
    fixture.advance(100 * SECOND);
    let ticks = fixture.log.ticks();
    assert!(ticks.len() >= 18 && ticks.windows(2).all(|pair| pair[0] < pair[1]), "{ticks:?}");
    assert!(fixture.log.hosts()[9..].iter().all(|host| *host == "b"));
    assert!(at_b.status("j").next_tick.is_some());
    // Ticks that the former leader ran are not missed; ticks that no replica ran are.
    let gap = (ticks[9] - ticks[8]) / 10_000 - 1;
    assert_eq!(counts(&at_b).missed, gap);
}

#[test]
fn lost_leadership_drops_the_runs() {
    for claim in [Claim::AtStart, Claim::AtEnd] {
        let fixture = Fixture::new();
        let job =
            |host: &Host| host.job("j", Schedule::every(HOUR * SECOND), 100 * SECOND).claim(claim);
        let [(a, at_a), (_b, at_b)] = fixture.led(["a", "b"], job);
        fixture.advance(HOUR * SECOND + SECOND);
        lose_leadership(&a);
        fixture.advance(TTL + TTL / 10);
        assert!(at_b.handle.is_active() && !at_a.handle.is_active());
        let run = &fixture.log.entries()[0];
        assert!(run.ended.is_some() && !run.finished);
        assert_eq!(counts(&at_a).stopped, 1);
        assert_eq!(at_a.status("j").next_tick, None);
        fixture.advance(TTL + 110 * SECOND);
        let expected: &[_] = if claim == Claim::AtEnd { &["a", "b"] } else { &["a"] };
        assert_eq!(fixture.log.hosts(), expected);
        assert_eq!(fixture.log.entries().last().unwrap().finished, claim == Claim::AtEnd);
    }
}

#[test]
fn trigger_on_standby_is_skipped() {
    let fixture = Fixture::new();
    let job = |host: &Host| host.job("j", Schedule::every(HOUR * SECOND), SECOND);
    let [(a, at_a), (_b, mut at_b)] = fixture.led(["a", "b"], job);
    fixture.advance(5 * SECOND);
    let mut refused = fixture.clock.spawn(at_b.handle.trigger_here("j").unwrap());
    at_b.handle.trigger_here("j").unwrap();
    fixture.clock.settle();
    assert_eq!(refused.take(), Some(Err(SkipReason::NotLeading)));
    assert_eq!(at_b.event_names(), ["not leading"; 2]);
    assert_eq!(at_b.status("j").state, JobState::StandingBy { leader: Some("a".into()) });
    at_a.handle.trigger_here("j").unwrap();
    fixture.advance(SECOND);
    a.crash();
    fixture.advance(2 * TTL);
    assert!(at_b.handle.is_active());
    assert_eq!(fixture.log.hosts(), ["a"]);
}

#[test]
fn lost_leadership_ends_min_hold() {
    let fixture = Fixture::new();
    let job =
        |host: &Host| host.job("j", Schedule::every(HOUR * SECOND), MS).min_hold(600 * SECOND);
    let [(a, _at_a), (_b, at_b)] = fixture.led(["a", "b"], job);
    fixture.advance(HOUR * SECOND + SECOND);
    assert_eq!(fixture.nodes.key_counts(), [2; 5]);
    lose_leadership(&a);
    fixture.advance(TTL + TTL / 10);
    assert!(at_b.handle.is_active());
    assert_eq!(fixture.nodes.key_counts(), [1; 5], "the leader's lock");
}

#[test]
fn shutdown_ends_runs_before_leadership() {
    let fixture = Fixture::new();
    let job = |host: &Host| host.job("j", Schedule::every(10 * SECOND), 60 * SECOND);
    let [(_a, at_a), (_b, at_b)] = fixture.led(["a", "b"], job);
    fixture.advance(11 * SECOND);
    let mut report = fixture.shutdown(&at_a, 3 * SECOND);
    fixture.advance(2_900 * MS);
    assert!(at_a.handle.is_active() && !at_b.handle.is_active(), "its run continues");
    fixture.advance(200 * MS);
    let report = report.take().expect("the work is over");
    assert_eq!(report.stopped, [Arc::from("j")]);
    assert!(!at_a.handle.is_active());
    fixture.advance(TTL / 2);
    assert!(at_b.handle.is_active(), "the lock was released");
    // A standby replica shuts down at once.
    let mut again = fixture.shutdown(&at_a, 60 * SECOND);
    fixture.clock.settle();
    assert_eq!(again.take().map(|report| report.still_running.len()), Some(0));
    fixture.advance(100 * SECOND);
    assert!(!at_a.handle.is_active());
}

#[test]
fn standby_shuts_down_at_once() {
    let fixture = Fixture::new();
    let job = |host: &Host| host.job("j", Schedule::every(10 * SECOND), Duration::ZERO);
    let [(_a, at_a), (b, at_b)] = fixture.led(["a", "b"], job);
    let mut report = fixture.shutdown(&at_b, 60 * SECOND);
    fixture.clock.settle();
    assert_eq!(report.take(), Some(ShutdownReport::default()));
    b.wire.sent();
    fixture.advance(100 * SECOND);
    assert_eq!(b.wire.sent(), 0, "it does not campaign any more");
    assert!(at_a.handle.is_active());
}

#[test]
fn blocking_work_outlasts_leadership() {
    with_timeout(20 * SECOND, || {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let (job, work) = blocking_job("j");
        let mut jobs = host.start_led([job]);
        fixture.advance(SECOND);
        let _cx = work.begun.recv().unwrap();
        let mut report = fixture.shutdown(&jobs, SECOND);
        fixture.advance(SECOND + 100 * MS);
        let report = report.take().expect("the shutdown waits for its grace only");
        assert_eq!(report.still_running, [Arc::from("j")]);
        assert_eq!(fixture.nodes.key_counts(), [1; 5], "the job's lock");
        fixture.advance(10 * TTL);
        assert!(!jobs.handle.is_active());
        assert_eq!(fixture.nodes.key_counts(), [1; 5], "it does not lead again");
        work.end.send(()).unwrap();
        wait_for(&fixture, &mut jobs, "finished");
        assert_eq!(fixture.nodes.key_counts(), [0; 5]);
    });
}

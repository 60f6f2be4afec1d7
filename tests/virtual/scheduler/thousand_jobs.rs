//! A thousand jobs in one scheduler.

use std::time::Duration;

use tower_redlock::Schedule;

use crate::{
    fixture::cpu_time,
    scheduler::fixture::{DAY, Fixture, MS, SECOND},
};

const JOBS: usize = 1_000;

#[test]
fn start_reads_each_node_twice() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = |number| host.job(&format!("job {number}"), Schedule::every(DAY), Duration::ZERO);
    // The first replica registers the jobs.
    let first = fixture.host("first");
    let _first = first.start((0..JOBS).map(job));
    fixture.advance(60 * SECOND);
    let jobs = host.start((0..JOBS).map(job));
    fixture.advance(60 * SECOND);
    let sent = host.wire.sent_by_kind();
    assert_eq!((sent["claims"], sent.len()), (2 * 5, 1), "500 jobs a call: {sent:?}");
    assert_eq!(jobs.handle.jobs().len(), JOBS);
}

#[test]
fn controls_are_read_together() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = |number| host.job(&format!("job {number}"), Schedule::every(DAY), Duration::ZERO);
    let _jobs = host.start((0..JOBS).map(job));
    fixture.advance(60 * SECOND);
    host.wire.all_sent();
    fixture.advance(60 * SECOND);
    // Twice 500 jobs, every 4 to 5 s.
    let reads = host.wire.all_sent()["control"] / (2 * 5);
    assert!((12..=15).contains(&reads), "{reads}");
}

#[test]
fn registrations_are_spread_over_time() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = |number| host.job(&format!("job {number}"), Schedule::every(DAY), Duration::ZERO);
    let _jobs = host.start((0..JOBS).map(job));
    let mut most = 0;
    let mut sum = 0;
    for _ in 0..60 {
        fixture.advance(100 * MS);
        let sent = host.wire.sent();
        (most, sum) = (most.max(sent), sum + sent);
    }
    // An acquire, a promise, a claim and a release at each node.
    assert_eq!(sum, 5 * (2 + 4 * JOBS));
    // 20 jobs on average.
    assert!(most <= 5 * 4 * 60, "{most} operations within 100 ms");
    fixture.advance(600 * SECOND);
    assert_eq!(host.wire.sent(), 0);
}

#[test]
fn idle_jobs_cost_little() {
    const IDLE: Duration = Duration::from_secs(60);
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = |number| host.job(&format!("job {number}"), Schedule::every(400 * DAY), MS);
    let jobs = host.start((0..JOBS).map(job));
    fixture.advance(60 * SECOND);
    assert!(jobs.handle.jobs().iter().all(|status| status.next_tick.is_some()));
    let before = cpu_time();
    fixture.advance(IDLE);
    let used = cpu_time().saturating_sub(before);
    println!("{JOBS} idle jobs: {used:?} of processor time in {IDLE:?}");
    assert!(used < IDLE / 2, "{JOBS} idle jobs use {used:?} of processor time in {IDLE:?}");
}

//! Ticks that wait for a run elsewhere, under a lock with a long TTL.

use std::time::Duration;

use tower_redlock::{
    Job, Schedule,
    scheduler::{Claim, Overlap},
};

use crate::scheduler::fixture::{Fixture, Host, MINUTE, MS, RunningScheduler, SECOND};

/// Maximum time from a release to the next run.
const WOKEN: Duration = Duration::from_millis(300);

/// Two replicas with a job of 100 s each minute. The first tick's run continues, and the second tick
/// has come.
fn during_a_run(fixture: &Fixture, change: impl Fn(Job) -> Job) -> [(Host, RunningScheduler); 2] {
    let both = ["a", "b"].map(|name| {
        let host = fixture.host(name);
        let job = host.job("j", Schedule::every(MINUTE), 100 * SECOND);
        let job = job.ttl(MINUTE).start_within(10 * SECOND);
        let jobs = host.start([change(job)]);
        fixture.clock.settle();
        (host, jobs)
    });
    fixture.advance(130 * SECOND);
    assert_eq!(fixture.log.ticks(), [60_000]);
    let [a, b] = both;
    if fixture.log.hosts() == ["a"] { [a, b] } else { [b, a] }
}

fn shut_down(fixture: &Fixture, jobs: &RunningScheduler, grace: Duration) {
    let _task = fixture.shutdown(jobs, grace);
    fixture.clock.settle();
}

#[test]
fn shutdown_hands_over_the_queued_tick() {
    let fixture = Fixture::new();
    let [(runner, jobs), (other, _other)] =
        during_a_run(&fixture, |job| job.overlap(Overlap::Queue));
    shut_down(&fixture, &jobs, MINUTE);
    fixture.advance(30 * SECOND + WOKEN);
    assert_eq!(fixture.log.hosts(), [runner.name, other.name]);
    assert_eq!(fixture.log.ticks(), [60_000, 120_000]);
}

#[test]
fn interrupted_run_repeats_at_once() {
    let fixture = Fixture::new();
    let [(runner, jobs), (other, _other)] = during_a_run(&fixture, |job| job.claim(Claim::AtEnd));
    shut_down(&fixture, &jobs, SECOND);
    fixture.advance(SECOND + WOKEN);
    assert_eq!(fixture.log.hosts(), [runner.name, other.name]);
    assert_eq!(fixture.log.entries()[1].attempt, 2);
}

/// The runner continues the schedule itself: no other replica takes the lock.
#[test]
fn queued_tick_costs_others_one_read() {
    let fixture = Fixture::new();
    let [(runner, _jobs), (other, _other)] =
        during_a_run(&fixture, |job| job.overlap(Overlap::Queue));
    fixture.advance(29 * SECOND);
    other.wire.sent();
    fixture.advance(10 * SECOND);
    assert_eq!(fixture.log.hosts(), [runner.name; 2]);
    let sent = other.wire.sent_by_kind();
    assert_eq!(sent.into_iter().collect::<Vec<_>>(), [("claims", fixture.nodes.len())]);
}

#[test]
fn skipped_tick_wakes_no_replica() {
    let fixture = Fixture::new();
    let [(_runner, _jobs), (other, _other)] = during_a_run(&fixture, |job| job);
    fixture.advance(29 * SECOND);
    other.wire.sent();
    fixture.advance(10 * SECOND);
    assert_eq!(fixture.log.ticks(), [60_000]);
    // It looks for the lock of the run a few times a TTL.
    let sent = other.wire.sent_by_kind();
    assert!(sent.iter().all(|(kind, _)| ["other", "claims"].contains(kind)), "{sent:?}");
}

#[test]
fn queued_tick_follows_remote_trigger() {
    let fixture = Fixture::new();
    let [a, b] = ["a", "b"].map(|name| fixture.host(name));
    let job = |host: &Host| {
        let job = host.job("j", Schedule::every(MINUTE), 30 * SECOND);
        job.ttl(MINUTE).start_within(10 * SECOND).overlap(Overlap::Queue)
    };
    let (at_a, _at_b) = (a.start([job(&a)]), b.start([job(&b)]));
    at_a.handle.pause_here("j").unwrap();
    fixture.advance(37 * SECOND);
    at_a.handle.trigger_here("j").unwrap();
    fixture.advance(29 * SECOND);
    assert_eq!(fixture.log.hosts(), ["a"]);
    fixture.advance(SECOND + WOKEN + 10 * MS);
    assert_eq!(fixture.log.hosts(), ["a", "b"]);
}

/// Runs for 15 min, every 10 min: the next tick is queued.
fn queueing_job(host: &Host) -> Job {
    let job = host.job("j", Schedule::every(10 * MINUTE), 15 * MINUTE);
    job.start_within(10 * SECOND).overlap(Overlap::Queue)
}

/// For another replica, the tick is late long before the run has ended.
#[test]
fn queued_tick_outlasts_start_within() {
    let fixture = Fixture::new();
    let [a, b] = ["a", "b"].map(|name| fixture.host(name));
    let mut jobs = [a.start([queueing_job(&a)]), b.start([queueing_job(&b)])];
    fixture.advance(24 * MINUTE);
    assert_eq!(fixture.log.ticks(), [600_000]);
    let runner = usize::from(fixture.log.hosts() == ["b"]);
    let names = jobs[1 - runner].event_names();
    assert!(!names.contains(&"missed"), "{names:?}");
    shut_down(&fixture, &jobs[runner], 10 * MINUTE);
    fixture.advance(MINUTE + WOKEN);
    assert_eq!(fixture.log.ticks(), [600_000, 1_200_000]);
    assert_ne!(fixture.log.hosts()[0], fixture.log.hosts()[1]);
}

/// No end is stored: the queued tick counts as late.
#[test]
fn crashed_runner_misses_the_queued_tick() {
    let fixture = Fixture::new();
    let [a, b] = ["a", "b"].map(|name| fixture.host(name));
    let mut jobs = [a.start([queueing_job(&a)]), b.start([queueing_job(&b)])];
    fixture.advance(24 * MINUTE);
    let (runner, other) = if fixture.log.hosts() == ["a"] { (&a, 1) } else { (&b, 0) };
    jobs[other].event_names();
    runner.crash();
    fixture.advance(MINUTE);
    assert_eq!(jobs[other].event_names(), ["missed"; 2], "the run that crashed, and the tick");
    fixture.advance(6 * MINUTE);
    assert_eq!(fixture.log.ticks(), [600_000, 1_800_000]);
}

//! Statuses, counts and events of jobs.

use std::time::{Duration, SystemTime};

use tower_redlock::{Job, JobContext, Schedule, scheduler::Overlap};

use crate::scheduler::fixture::{Fixture, MS, SECOND, after_start};

#[test]
fn fleet_shows_the_own_run() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let at_a = a.start([a.job("j", Schedule::every(100 * SECOND), 5 * SECOND)]);
    fixture.advance(101 * SECOND);
    let fleet = at_a.status("j").fleet.expect("the call is refused as its own run");
    assert_eq!(fleet.owner.as_deref(), Some("a"));
    assert!(fleet.tick.is_some() && fleet.ended.is_none());
    fixture.advance(10 * SECOND);
    assert!(at_a.status("j").fleet.unwrap().ended.is_some());
    // A triggered run on another replica does not run the tick.
    let at_b = b.start([b.job("j", Schedule::every(100 * SECOND), Duration::ZERO)]);
    fixture.advance(SECOND);
    at_b.handle.trigger_here("j").unwrap();
    fixture.advance(SECOND);
    let fleet = at_b.status("j").fleet.unwrap();
    assert_eq!(
        (fleet.owner.as_deref(), fleet.tick),
        (Some("a"), at_a.status("j").fleet.unwrap().tick)
    );
    assert_eq!(fixture.log.hosts(), ["a", "b"]);
}

#[test]
fn last_missed_is_by_an_outage_not_a_pause() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = host.job("j", Schedule::every(10 * SECOND), Duration::ZERO).start_within(SECOND);
    let jobs = host.start([job]);
    fixture.advance(11 * SECOND);
    assert_eq!(jobs.status("j").last_missed, None);
    fixture.nodes.stop(0..3);
    fixture.advance(35 * SECOND);
    fixture.nodes.start(0..3);
    fixture.advance(3_999 * MS);
    let missed = jobs.status("j").last_missed.unwrap();
    let after_start = |at: SystemTime| after_start(at.into());
    assert_eq!((missed.count, after_start(missed.tick)), (3, 40_000));
    assert!((46_000..=50_000).contains(&after_start(missed.found)), "{missed:?}");
    assert!(missed.why.contains("node-0: not connected (stopped)"), "{}", missed.why);
    jobs.handle.pause_here("j").unwrap();
    fixture.advance(30 * SECOND);
    jobs.handle.resume_here("j").unwrap();
    fixture.advance(SECOND);
    let status = jobs.status("j");
    assert_eq!((status.counts.missed, status.last_missed), (6, Some(missed)));
}

#[test]
fn overlapped_tick_counts_as_skipped() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = host.job("j", Schedule::every(10 * SECOND), 25 * SECOND).overlap(Overlap::Skip);
    let mut jobs = host.start([job]);
    fixture.advance(36 * SECOND);
    let names = jobs.event_names();
    assert_eq!(names.iter().filter(|name| **name == "overlap").count(), 2);
    let counts = jobs.status("j").counts;
    assert_eq!((counts.skipped, counts.missed, counts.started), (2, 2, 1));
}

#[test]
fn queued_tick_is_not_skipped() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = host.job("j", Schedule::every(10 * SECOND), 15 * SECOND).overlap(Overlap::Queue);
    let mut jobs = host.start([job]);
    fixture.advance(26 * SECOND);
    assert!(jobs.event_names().contains(&"overlap"));
    let counts = jobs.status("j").counts;
    assert_eq!((counts.skipped, counts.missed, counts.started), (0, 0, 2));
}

#[test]
fn shows_the_run_and_its_attempt() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let clock = host.clock.clone();
    let job = Job::new("j", Schedule::every(100 * SECOND), move |cx: JobContext| {
        let sleep = clock.sleep(SECOND);
        async move {
            sleep.await;
            if cx.attempt() < 3 { Err(format!("no {}", cx.attempt())) } else { Ok(()) }
        }
    });
    let mut jobs = host.start([job.retries(4).backoff(2 * SECOND)]);
    fixture.clock.settle();
    let next = jobs.status("j").next_tick.expect("the job waits for a tick");
    fixture.advance(100 * SECOND + 500 * MS);
    let status = jobs.status("j");
    let running = status.running.expect("the job runs");
    assert_eq!((running.tick, running.attempt, status.next_tick), (next, 1, None));
    fixture.advance(3 * SECOND);
    let retried = jobs.status("j").running.unwrap();
    assert_eq!((retried.attempt, retried.token), (2, running.token));
    fixture.advance(10 * SECOND);
    let status = jobs.status("j");
    assert_eq!((status.counts.retries, status.counts.finished, status.counts.failed), (2, 1, 0));
    assert_eq!(status.last.unwrap().took, 9 * SECOND);
    assert!(status.running.is_none() && status.next_tick > Some(next));
    let names: Vec<_> = jobs.event_names().into_iter().filter(|name| *name != "extended").collect();
    assert_eq!(names, ["claimed", "started", "retrying", "retrying", "finished"]);
}

#[test]
fn serializes_as_json() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let jobs = host.start([host.job("j", Schedule::every(100 * SECOND), 5 * SECOND)]);
    fixture.advance(102 * SECOND);
    let shown = serde_json::to_value(jobs.handle.jobs()).unwrap();
    let job = &shown[0];
    assert_eq!((&job["name"], &job["next_tick"]), (&"j".into(), &serde_json::Value::Null));
    assert_eq!(job["running"]["tick"], "2025-01-01T00:01:40Z");
    assert_eq!(job["running"]["attempt"], 1);
    assert_eq!((&job["fleet"]["owner"], &job["counts"]["started"]), (&"a".into(), &1.into()));
    fixture.advance(10 * SECOND);
    let shown = serde_json::to_value(jobs.handle.jobs()).unwrap();
    assert_eq!(
        (&shown[0]["last"]["outcome"], &shown[0]["last"]["took"]),
        (&"finished".into(), &"5s".into())
    );
    assert_eq!(shown[0]["next_tick"], "2025-01-01T00:03:20Z");
}

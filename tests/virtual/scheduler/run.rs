//! One run, from its start to its end.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tower_redlock::{
    FencingToken, Job, JobContext, Schedule,
    error::LossCause,
    scheduler::{JobEventKind, Outcome},
};

use crate::scheduler::fixture::{Fixture, MS, SECOND, TTL};

fn without_renewals(names: Vec<&'static str>) -> Vec<&'static str> {
    names.into_iter().filter(|name| *name != "extended").collect()
}

#[test]
fn lock_is_renewed_during_the_run() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let mut jobs = host.start([host.job("j", Schedule::every(3600 * SECOND), 60 * SECOND)]);
    fixture.advance(3600 * SECOND);
    assert_eq!(fixture.nodes.key_counts(), [1; 5]);
    fixture.advance(61 * SECOND);
    assert_eq!(fixture.nodes.key_counts(), [0; 5]);
    let events = jobs.new_events();
    let renewals = events.iter().filter_map(|event| match event.kind {
        JobEventKind::Extended { remaining } => Some(remaining),
        _ => None,
    });
    let renewals: Vec<Duration> = renewals.collect();
    assert!((60 / 10..60).contains(&renewals.len()), "{}", renewals.len());
    assert!(renewals.iter().all(|left| *left > TTL / 2 && *left < TTL));
    let last = events.last().map(|event| event.kind.clone());
    assert_eq!(last, Some(JobEventKind::Finished { took: 60 * SECOND }));
    assert!(fixture.log.entries()[0].finished);
}

#[test]
fn loss_requests_stop_then_drops() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let mut jobs = host.start([host.job("j", Schedule::every(3600 * SECOND), 60 * SECOND)]);
    fixture.advance(3600 * SECOND);
    jobs.new_events();
    host.replica.partition(0..3);
    fixture.advance(TTL);
    let events = jobs.new_events();
    let at = |name| {
        let found =
            events.iter().find(|event| crate::scheduler::fixture::event_name(&event.kind) == name);
        found.expect(name).at
    };
    assert!(at("stopping") < at("lost"));
    assert!(!fixture.log.entries()[0].finished && fixture.log.entries()[0].ended.is_some());
    let last = jobs.status("j").last.unwrap();
    assert!(matches!(last.outcome, Outcome::Lost { cause: LossCause::Expired { .. } }));
    assert_eq!(jobs.status("j").counts.lost, 1);
    host.replica.heal(0..3);
    fixture.advance(3600 * SECOND);
    assert_eq!(jobs.status("j").counts.started, 2);
}

#[test]
fn max_run_ends_the_run() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = host.job("j", Schedule::every(3600 * SECOND), 600 * SECOND).max_run(30 * SECOND);
    let mut jobs = host.start([job]);
    fixture.advance(3629 * SECOND);
    assert!(fixture.log.entries()[0].ended.is_none());
    fixture.advance(SECOND + MS);
    assert_eq!(
        without_renewals(jobs.event_names()),
        ["claimed", "started", "stopping", "timed out"]
    );
    assert_eq!(jobs.status("j").last.unwrap().outcome, Outcome::TimedOut { error: None });
    assert_eq!(fixture.nodes.key_counts(), [0; 5]);
    fixture.advance(60 * SECOND);
    assert_eq!(fixture.log.entries().len(), 1);
}

#[test]
fn min_hold_lasts_until_shutdown() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = host.job("j", Schedule::every(100 * SECOND), SECOND).min_hold(40 * SECOND);
    let jobs = host.start([job]);
    fixture.advance(139 * SECOND);
    assert_eq!(jobs.status("j").counts.finished, 1);
    assert_eq!(fixture.nodes.key_counts(), [1; 5]);
    fixture.advance(SECOND + MS);
    assert_eq!(fixture.nodes.key_counts(), [0; 5]);
    fixture.advance(65 * SECOND);
    assert_eq!(fixture.nodes.key_counts(), [1; 5]);
    let mut report = fixture.shutdown(&jobs, SECOND);
    fixture.advance(100 * MS);
    assert!(report.take().is_some());
    assert_eq!(fixture.nodes.key_counts(), [0; 5]);
}

#[test]
fn panic_is_an_outcome() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let mut runs = 0;
    let job = Job::new("j", Schedule::every(10 * SECOND), move |_| {
        runs += 1;
        let run = runs;
        async move {
            match run {
                1 => panic!("run {run}"),
                2 => std::panic::panic_any(7),
                _ => {}
            }
        }
    });
    let mut jobs = host.start([job.retries(3)]);
    fixture.advance(31 * SECOND);
    let message = |event: tower_redlock::scheduler::JobEvent| match event.kind {
        JobEventKind::Panicked { message, .. } => Some(message),
        _ => None,
    };
    let panics: Vec<_> = jobs.new_events().into_iter().filter_map(message).collect();
    assert_eq!(&*panics[0], "run 1");
    assert_eq!(panics.len(), 2);
    let counts = jobs.status("j").counts;
    assert_eq!((counts.panicked, counts.finished, counts.retries), (2, 1, 0));
    assert_eq!(fixture.nodes.key_counts(), [0; 5]);
}

type Seen = Arc<Mutex<Vec<(u32, FencingToken, Duration)>>>;

#[test]
fn retries_keep_token_and_double_pauses() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let seen = Seen::default();
    let (noted, clock) = (Arc::clone(&seen), host.clock.clone());
    let job = Job::new("j", Schedule::every(3600 * SECOND), move |cx: JobContext| {
        let wall = tower_redlock::time::Clock::wall(&clock);
        noted.lock().unwrap().push((cx.attempt(), cx.fencing_token(), wall));
        async { Err::<(), _>("always") }
    });
    let mut jobs = host.start([job.retries(3).backoff(2 * SECOND)]);
    fixture.advance(3620 * SECOND);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.iter().map(|(attempt, ..)| *attempt).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(seen.iter().all(|(_, token, _)| *token == seen[0].1));
    let pauses: Vec<_> =
        seen.windows(2).map(|pair| pair[1].2.saturating_sub(pair[0].2).as_secs()).collect();
    assert_eq!(pauses, [2, 4, 8]);
    let names = without_renewals(jobs.event_names());
    assert_eq!(names, ["claimed", "started", "retrying", "retrying", "retrying", "failed"]);
    assert_eq!((jobs.status("j").counts.failed, jobs.status("j").counts.retries), (1, 3));
}

#[test]
fn context_describes_the_run() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let schedule = Schedule::every(100 * SECOND).jitter(20 * SECOND);
    let job = Job::new("j", schedule, move |cx: JobContext| {
        noted.lock().unwrap().push(cx);
        async {}
    });
    let jobs = host.start([job]);
    fixture.advance(99 * SECOND);
    fixture.nodes.stop(0..5);
    fixture.advance(25 * SECOND);
    fixture.nodes.start(0..5);
    fixture.advance(6 * SECOND);
    jobs.handle.trigger_here("j").unwrap();
    fixture.clock.settle();
    let seen = seen.lock().unwrap();
    let (run, asked) = (&seen[0], &seen[1]);
    assert_eq!((run.job(), run.attempt(), run.is_triggered()), ("j", 1, false));
    assert_eq!(crate::scheduler::fixture::after_start(run.tick()), 100_000);
    let start = run.scheduled_at().duration_since(run.tick().into()).unwrap();
    assert!(start < 20 * SECOND && run.lateness() + start >= 24 * SECOND);
    assert!(run.lateness() + start <= 31 * SECOND);
    assert!(asked.is_triggered() && asked.tick() > run.tick());
    assert!(asked.fencing_token() > run.fencing_token());
    assert_eq!(run.resource().to_string(), "job:j");
}

#[test]
fn retry_pauses_are_capped() {
    for (first, expected) in [(40, [40, 60, 60]), (100, [100, 100, 100])] {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let job = Job::new("j", Schedule::every(3600 * SECOND), |_| async { Err::<(), _>("no") });
        let mut jobs = host.start([job.retries(3).backoff(first * SECOND)]);
        fixture.advance(3_600 * SECOND + 400 * SECOND);
        let pause = |event: tower_redlock::scheduler::JobEvent| match event.kind {
            JobEventKind::Retrying { pause, .. } => Some(pause.as_secs()),
            _ => None,
        };
        assert_eq!(jobs.new_events().into_iter().filter_map(pause).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn late_renewal_shortens_no_pause() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = Job::new("j", Schedule::every(3600 * SECOND), |_| async { Err::<(), _>("no") });
    let mut jobs = host.start([job.retries(1).backoff(40 * SECOND)]);
    fixture.advance(3_600 * SECOND);
    jobs.new_events();
    host.wire.judge(|_, op| match op {
        tower_redlock::node::Op::Extend(_) => crate::scheduler::wire::Fate::Refused,
        _ => crate::scheduler::wire::Fate::Passes,
    });
    let is_late = (0..100).any(|_| {
        fixture.advance(100 * MS);
        jobs.event_names().contains(&"stopping")
    });
    assert!(is_late);
    host.wire.calm();
    fixture.advance(20 * SECOND);
    assert_eq!(without_renewals(jobs.event_names()), [""; 0]);
    fixture.advance(20 * SECOND);
    assert_eq!(without_renewals(jobs.event_names()), ["failed"]);
}

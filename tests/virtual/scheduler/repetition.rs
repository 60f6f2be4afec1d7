//! Runs that are repeated: work that stops on request, and work that is not done.

use std::{error::Error, fmt};

use tower_redlock::{
    Job, JobContext, Schedule,
    scheduler::{Claim, JobEventKind, NotDone, Outcome, Overlap},
};

use crate::scheduler::{
    fixture::{Fixture, HOUR, Host, MS, SECOND, TTL},
    wire::Fate,
};

/// A job that ends on a stop request with an error.
fn stoppable(host: &Host, claim: Claim) -> Job {
    let (log, at, clock) = (host.log.clone(), host.name, host.clock.clone());
    let job = Job::new("j", Schedule::every(HOUR), move |cx: JobContext| {
        let ended = log.begin(at, &cx, &clock);
        let sleep = clock.sleep(100 * SECOND);
        async move {
            tokio::select! {
                () = sleep => { ended.finished(); Ok(()) }
                () = cx.stopping() => Err("70 of 100 pages"),
            }
        }
    });
    job.claim(claim)
}

#[test]
fn error_after_stop_request_is_repeated() {
    for claim in [Claim::AtStart, Claim::AtEnd] {
        let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
        let at_a = a.start([stoppable(&a, claim)]);
        fixture.advance(HOUR);
        let _b = b.start([stoppable(&b, claim)]);
        fixture.advance(SECOND);
        let mut report = fixture.shutdown(&at_a, 30 * SECOND);
        fixture.advance(12 * SECOND);
        assert!(report.take().is_some());
        let status = at_a.status("j");
        assert_eq!(status.last.unwrap().outcome, Outcome::Stopped);
        assert_eq!((status.counts.stopped, status.counts.failed), (1, 0));
        let expected: &[_] = if claim == Claim::AtEnd { &["a", "b"] } else { &["a"] };
        assert_eq!(fixture.log.hosts(), expected);
    }
}

#[test]
fn error_before_lock_end_is_repeated() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let jobs = host.start([stoppable(&host, Claim::AtEnd)]);
    fixture.advance(HOUR + SECOND);
    host.wire.apply(Fate::Refused, |_, op| matches!(op, tower_redlock::node::Op::Extend(_)));
    fixture.advance(TTL);
    assert_eq!(jobs.status("j").counts.stopped, 1);
    host.wire.calm();
    fixture.advance(120 * SECOND);
    let runs = fixture.log.entries();
    assert_eq!((runs.len(), runs[1].attempt, runs[1].tick == runs[0].tick), (2, 2, true));
    assert!(runs[1].finished);
}

#[test]
fn error_before_max_run_ends_it() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let mut jobs = host.start([stoppable(&host, Claim::AtEnd).max_run(30 * SECOND)]);
    fixture.advance(HOUR + 200 * SECOND);
    let outcome = Outcome::TimedOut { error: Some("70 of 100 pages".into()) };
    assert_eq!(jobs.status("j").last.unwrap().outcome, outcome);
    assert!(jobs.event_names().contains(&"timed out"));
    assert_eq!(fixture.log.entries().len(), 1);
}

#[test]
fn overlap_stop_is_not_repeated() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let (log, clock) = (host.log.clone(), host.clock.clone());
    let job = Job::new("j", Schedule::every(50 * SECOND), move |cx: JobContext| {
        drop(log.begin("a", &cx, &clock));
        async move {
            cx.stopping().await;
            Err::<(), _>("not all")
        }
    });
    let _jobs = host.start([job.overlap(Overlap::Stop).claim(Claim::AtEnd)]);
    fixture.advance(160 * SECOND);
    assert_eq!(fixture.log.ticks(), [50_000, 100_000, 150_000]);
}

#[test]
fn max_run_reports_the_last_error() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = Job::new("j", Schedule::every(HOUR), |cx: JobContext| async move {
        Err::<(), _>(format!("no {}", cx.attempt()))
    });
    let mut jobs = host.start([job.retries(5).backoff(20 * SECOND).max_run(30 * SECOND)]);
    fixture.advance(HOUR + SECOND);
    assert_eq!(jobs.status("j").running.unwrap().last_error.as_deref(), Some("no 1"));
    fixture.advance(30 * SECOND);
    let error = Some("no 2".into());
    assert_eq!(jobs.status("j").last.unwrap().outcome, Outcome::TimedOut { error });
    let events = jobs.new_events();
    let Some(JobEventKind::TimedOut { error, .. }) = events.last().map(|event| &event.kind) else {
        panic!("{events:?}")
    };
    assert_eq!(error.as_deref(), Some("no 2"));
}

/// An error of the application, with `NotDone` as its source.
#[derive(Debug)]
struct Import(NotDone);

impl fmt::Display for Import {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the import stopped")
    }
}

impl Error for Import {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

/// A job that is done at the third attempt.
fn in_parts(host: &Host, claim: Claim) -> Job {
    let (log, at, clock) = (host.log.clone(), host.name, host.clock.clone());
    let job = Job::new("j", Schedule::every(HOUR), move |cx: JobContext| {
        let ended = log.begin(at, &cx, &clock);
        async move {
            if cx.attempt() < 3 {
                return Err(Import(NotDone::new("more files")));
            }
            ended.finished();
            Ok(())
        }
    });
    job.claim(claim).backoff(10 * SECOND)
}

#[test]
fn not_done_repeats_after_a_pause() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let (at_a, at_b) =
        (a.start([in_parts(&a, Claim::AtEnd)]), b.start([in_parts(&b, Claim::AtEnd)]));
    fixture.advance(HOUR + 9 * SECOND);
    assert_eq!(fixture.log.entries().len(), 1);
    fixture.advance(120 * SECOND);
    let runs = fixture.log.entries();
    assert_eq!(runs.iter().map(|run| run.attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(runs.iter().all(|run| run.tick == runs[0].tick) && runs[2].finished);
    let pauses: Vec<_> =
        runs.windows(2).map(|pair| pair[1].began.saturating_sub(pair[0].began)).collect();
    assert!(pauses[0] >= 10 * SECOND && pauses[1] >= 20 * SECOND, "{pauses:?}");
    let counts = [at_a.status("j").counts, at_b.status("j").counts];
    assert_eq!(counts.iter().map(|counts| counts.not_done).sum::<u64>(), 2);
    assert_eq!(counts.iter().map(|counts| counts.failed + counts.retries).sum::<u64>(), 0);
}

#[test]
fn claim_at_start_fails_unfinished_work() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let jobs = host.start([in_parts(&host, Claim::AtStart)]);
    fixture.advance(HOUR + 120 * SECOND);
    let failed = Outcome::Failed { error: "the import stopped".into() };
    assert_eq!(jobs.status("j").last.unwrap().outcome, failed);
    assert_eq!(fixture.log.entries().len(), 1);
}

#[test]
fn shutdown_ends_the_pause() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let jobs = host.start([in_parts(&host, Claim::AtEnd)]);
    fixture.advance(HOUR + SECOND);
    assert_eq!(fixture.nodes.key_counts(), [1; 5]);
    let mut report = fixture.shutdown(&jobs, SECOND);
    fixture.advance(MS);
    assert!(report.take().is_some());
    assert_eq!(fixture.nodes.key_counts(), [0; 5]);
}

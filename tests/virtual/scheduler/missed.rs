//! Ticks that were missed, and ticks that are due during a run.

use std::time::Duration;

use tower_redlock::{
    Job, JobContext, Schedule,
    scheduler::{Claim, JobEventKind, Missed, Overlap},
};

use crate::scheduler::fixture::{Fixture, MINUTE, MS, SECOND};

/// The ticks, in minutes, that run after the whole fleet was down from 2:30 to 9:30.
fn after_outage(configure: impl Fn(Job) -> Job, ran_before: bool) -> Vec<u64> {
    let fixture = Fixture::new();
    let job = |host: &crate::scheduler::fixture::Host| {
        configure(host.job("j", Schedule::every(MINUTE), MS).start_within(5 * SECOND))
    };
    let fleet = [fixture.host("a"), fixture.host("b")];
    let jobs = fleet.each_ref().map(|host| host.start([job(host)]));
    if ran_before {
        fixture.advance(2 * MINUTE + 30 * SECOND);
    } else {
        fixture.advance(30 * SECOND);
    }
    fleet.iter().for_each(crate::scheduler::fixture::Host::crash);
    fixture.advance(if ran_before { 7 * MINUTE } else { 9 * MINUTE });
    let before = fixture.log.entries().len();
    assert_eq!(before, if ran_before { 2 } else { 0 });
    let new = [fixture.host("c"), fixture.host("d")];
    let _new = new.each_ref().map(|host| host.start([job(host)]));
    fixture.advance(MINUTE);
    drop(jobs);
    fixture.log.ticks()[before..].iter().map(|tick| tick / 60_000).collect()
}

#[test]
fn stored_watermark_decides_after_restart() {
    let all = |at_most| Missed::RunAll { at_most };
    assert_eq!(after_outage(|job| job, true), [10]);
    assert_eq!(after_outage(|job| job.missed(Missed::RunLatest), true), [9, 10]);
    assert_eq!(after_outage(|job| job.missed(all(100)), true), [3, 4, 5, 6, 7, 8, 9, 10]);
    assert_eq!(after_outage(|job| job.missed(all(3)), true), [7, 8, 9, 10]);
    let window = 3 * MINUTE + 10 * SECOND;
    assert_eq!(after_outage(|job| job.missed(all(100)).catch_up(window), true), [7, 8, 9, 10]);
    let window = 10 * SECOND;
    assert_eq!(after_outage(|job| job.missed(Missed::RunLatest).catch_up(window), true), [10]);
}

#[test]
fn unrun_job_counts_from_first_start() {
    assert_eq!(after_outage(|job| job, false), [10]);
    assert_eq!(after_outage(|job| job.missed(Missed::RunLatest), false), [9, 10]);
    let all = Missed::RunAll { at_most: 100 };
    let every: Vec<u64> = (1..=10).collect();
    assert_eq!(after_outage(|job| job.missed(all), false), every);
}

/// The ticks in seconds that run within 100 s, of a job whose first run takes this time.
fn with_long_run(takes: Duration, configure: impl Fn(Job) -> Job) -> Vec<(u64, u64)> {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let (log, clock, mut first) = (host.log.clone(), host.clock.clone(), true);
    let job = Job::new("j", Schedule::every(10 * SECOND), move |cx: JobContext| {
        let ended = log.begin("a", &cx, &clock);
        let sleep = clock.sleep(if std::mem::take(&mut first) { takes } else { MS });
        async move {
            sleep.await;
            ended.finished();
        }
    });
    let _jobs = host.start([configure(job)]);
    fixture.advance(61 * SECOND);
    let runs = fixture.log.entries();
    let pairs = runs.windows(2).all(|pair| pair[0].ended.is_some_and(|end| end <= pair[1].began));
    assert!(pairs, "two runs overlap: {runs:?}");
    let seconds = |run: &crate::scheduler::fixture::Entry| {
        let tick = crate::scheduler::fixture::after_start(run.tick) / 1_000;
        (tick, tick + run.lateness.as_secs())
    };
    runs.iter().map(seconds).collect()
}

#[test]
fn overlapped_ticks_skip_queue_or_stop() {
    let long = 35 * SECOND;
    let rest = |mut ran: Vec<(u64, u64)>, next: &[(u64, u64)]| {
        ran.extend(next);
        ran
    };
    let skipped = with_long_run(long, |job| job);
    assert_eq!(skipped, [(10, 10), (50, 50), (60, 60)]);
    // The first run ends at 45: the latest tick is queued.
    let queued = with_long_run(long, |job| job.overlap(Overlap::Queue));
    assert_eq!(queued, [(10, 10), (40, 45), (50, 50), (60, 60)]);
    let latest = with_long_run(long, |job| job.missed(Missed::RunLatest));
    assert_eq!(latest, queued);
    let all = with_long_run(long, |job| job.missed(Missed::RunAll { at_most: 9 }));
    assert_eq!(all, rest(vec![(10, 10), (20, 45), (30, 45)], &[(40, 45), (50, 50), (60, 60)]));
    // Asked to stop at 20, dropped at 23.
    let stop = |job: Job| job.overlap(Overlap::Stop).stop_grace(3 * SECOND);
    let stopped = with_long_run(long, stop);
    assert_eq!(stopped, [(10, 10), (20, 23), (30, 30), (40, 40), (50, 50), (60, 60)]);
}

#[test]
fn overlap_stop_requests_before_dropping() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let (log, clock) = (host.log.clone(), host.clock.clone());
    let job = Job::new("j", Schedule::every(10 * SECOND), move |cx: JobContext| {
        let (ended, clock) = (log.begin("a", &cx, &clock), clock.clone());
        async move {
            cx.stopping().await;
            clock.sleep(SECOND).await;
            ended.finished();
        }
    });
    let mut jobs = host.start([job.overlap(Overlap::Stop)]);
    fixture.advance(22 * SECOND);
    let runs = fixture.log.entries();
    assert!(runs[0].finished);
    assert_eq!((runs.len(), runs[1].lateness.as_secs()), (2, 1));
    let events = jobs.new_events();
    let stopping = events.iter().position(|event| event.kind == JobEventKind::Stopping).unwrap();
    let finished = |kind: &JobEventKind| matches!(kind, JobEventKind::Finished { .. });
    assert!(events[stopping..].iter().any(|event| finished(&event.kind)));
}

#[test]
fn further_ticks_extend_no_grace() {
    let stubborn = |job: Job| job.overlap(Overlap::Stop).stop_grace(25 * SECOND);
    let ran = with_long_run(3600 * SECOND, stubborn);
    // Asked to stop at 20, and again at 30 and 40.
    assert_eq!(ran, [(10, 10), (40, 45), (50, 50), (60, 60)]);
}

#[test]
fn overlap_stop_is_not_repeated() {
    let stop = |job: Job| job.overlap(Overlap::Stop).stop_grace(SECOND).claim(Claim::AtEnd);
    let ran = with_long_run(3600 * SECOND, stop);
    assert_eq!(ran, [(10, 10), (20, 21), (30, 30), (40, 40), (50, 50), (60, 60)]);
}

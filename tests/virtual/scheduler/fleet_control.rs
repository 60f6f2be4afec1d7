//! Pauses and requested runs of the whole fleet.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tower_redlock::{
    Redlock, Schedule,
    node::Op,
    scheduler::{ControlError, JobControl, JobState, MissReason, Missed},
    time::Clock,
};

use crate::scheduler::{
    fixture::{Fixture, Host, MS, RunningScheduler, SECOND},
    wire::Fate,
};

fn control(fixture: &Fixture, redlock: &Redlock) -> JobControl {
    let redlock = redlock.clone();
    fixture.done(async move { redlock.job_control("j").await }).unwrap()
}

fn after(fixture: &Fixture, start: Duration) -> SystemTime {
    UNIX_EPOCH + fixture.clock.wall() + start
}

fn fleet(fixture: &Fixture, period: Duration, takes: Duration) -> [(Host, RunningScheduler); 3] {
    fixture.fleet(["a", "b", "c"], |host| host.job("j", Schedule::every(period), takes))
}

#[test]
fn pause_stops_every_replica() {
    let fixture = Fixture::new();
    let mut fleet = fleet(&fixture, SECOND, Duration::ZERO);
    fixture.advance(2_500 * MS);
    assert_eq!(fixture.log.ticks(), [1_000, 2_000]);
    let pause = fleet[0].1.handle.pause("j").by("ann").why("the disk is full");
    fixture.done(pause).unwrap();
    fixture.advance(10 * SECOND);
    assert_eq!(fixture.log.ticks(), [1_000, 2_000]);
    for (_, jobs) in &mut fleet {
        let status = jobs.status("j");
        let why = Some("the disk is full".into());
        assert_eq!(status.state, JobState::Paused { by: "ann".into(), why, until: None });
        assert_eq!((status.paused_here, status.next_tick), (None, None));
        assert_eq!(&*status.control.paused.unwrap().by, "ann");
    }
    fixture.done(fleet[2].1.handle.resume("j")).unwrap();
    fixture.advance(1_500 * MS);
    let by = |jobs: &mut RunningScheduler| {
        jobs.missed().into_iter().find_map(|(_, _, why)| match why {
            MissReason::Paused { by } => Some(by),
            _ => None,
        })
    };
    let by: Vec<_> = fleet.iter_mut().filter_map(|(_, jobs)| by(jobs)).collect();
    assert!(!by.is_empty() && by.iter().all(|by| &**by == "ann"), "{by:?}");
    assert!(fixture.log.ticks().contains(&13_000), "{:?}", fixture.log.ticks());
}

/// No replica reads the control of all jobs between the resume and the tick.
#[test]
fn resume_is_seen_before_next_tick() {
    let fixture = Fixture::new();
    let fleet = fleet(&fixture, 100 * MS, Duration::ZERO);
    fixture.done(fleet[0].0.redlock.pause_job("j")).unwrap();
    fixture.advance(20 * SECOND);
    let before = fixture.log.ticks().len();
    let fourth = fixture.host("d");
    fixture.done(fourth.redlock.resume_job("j")).unwrap();
    fixture.advance(110 * MS);
    assert_eq!(fixture.log.ticks().len(), before + 1);
}

#[test]
fn pause_outlives_every_replica() {
    let fixture = Fixture::new();
    for (host, jobs) in fleet(&fixture, SECOND, Duration::ZERO) {
        let _ = fixture.done(jobs.handle.pause("j").by(host.name)).is_ok();
        host.crash();
    }
    let host = fixture.host("later");
    let jobs = host.start([host.job("j", Schedule::every(SECOND), Duration::ZERO)]);
    fixture.advance(30 * SECOND);
    assert_eq!(fixture.log.ticks(), [0_u64; 0]);
    assert_eq!(&*jobs.status("j").control.paused.unwrap().by, "c");
    assert_eq!(control(&fixture, &host.redlock), jobs.status("j").control);
}

#[test]
fn pause_ends_at_given_time() {
    let fixture = Fixture::new();
    let fleet = fleet(&fixture, SECOND, Duration::ZERO);
    let until = after(&fixture, 10_500 * MS);
    fixture.done(fleet[0].0.redlock.pause_job("j").until(until)).unwrap();
    fixture.advance(10 * SECOND);
    assert_eq!(fixture.log.ticks(), [0_u64; 0]);
    fixture.advance(2 * SECOND);
    // The latest tick is still on time.
    assert_eq!(fixture.log.ticks()[..2], [10_000, 11_000], "it needs no resume");
    assert!(fixture.log.entries()[0].began >= 10_500 * MS);
    assert_eq!(control(&fixture, &fleet[1].0.redlock).paused, None);
}

#[test]
fn pause_during_acquire_stops_the_tick() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let jobs =
        a.start([a.job("j", Schedule::every(SECOND), Duration::ZERO).missed(Missed::RunLatest)]);
    fixture.advance(500 * MS);
    fixture.done(b.redlock.pause_job("j").by("b")).unwrap();
    assert!(jobs.status("j").control.paused.is_none(), "it was not read yet");
    fixture.advance(SECOND);
    assert_eq!(fixture.log.ticks(), [0_u64; 0]);
    assert!(matches!(jobs.status("j").state, JobState::Paused { .. }));
}

#[test]
fn unreadable_control_starts_nothing() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let mut jobs = host.start([host.job("j", Schedule::every(SECOND), Duration::ZERO)]);
    fixture.advance(500 * MS);
    host.wire.apply(
        Fate::Refused,
        |node, op| matches!(op, Op::Claims(names) if names[0].contains("control") && node > 1),
    );
    fixture.advance(SECOND);
    assert_eq!(fixture.log.ticks(), [0_u64; 0]);
    assert!(jobs.event_names().contains(&"unavailable"));
    host.wire.calm();
    fixture.advance(10 * SECOND);
    assert!(!fixture.log.ticks().is_empty());
}

#[test]
fn request_runs_once_in_fleet() {
    let fixture = Fixture::new();
    let mut fleet = fleet(&fixture, 3_600 * SECOND, SECOND);
    fixture.advance(SECOND);
    let fourth = fixture.host("d");
    fixture.done(fourth.redlock.pause_job("j")).unwrap();
    let id = fixture.done(fourth.redlock.trigger_job("j").by("ann").why("now")).unwrap();
    let [request] = &control(&fixture, &fourth.redlock).requested[..] else { panic!("one") };
    assert_eq!((request.id, &*request.by, request.why.as_deref()), (id, "ann", Some("now")));
    fixture.advance(20 * SECOND);
    assert_eq!(fixture.log.entries().len(), 1, "although it is paused");
    assert_eq!(control(&fixture, &fourth.redlock).requested, []);
    let events: Vec<_> = fleet.iter_mut().flat_map(|(_, jobs)| jobs.new_events()).collect();
    assert!(events.iter().all(|event| event.trigger == Some(id)), "{events:?}");
    let names: Vec<_> =
        events.iter().map(|event| crate::scheduler::fixture::event_name(&event.kind)).collect();
    assert_eq!(names, ["started", "finished"]);
    fixture.advance(60 * SECOND);
    assert_eq!(fixture.log.entries().len(), 1);
}

#[test]
fn own_request_starts_at_once() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let jobs = host.start([host.job("j", Schedule::every(3_600 * SECOND), Duration::ZERO)]);
    fixture.advance(SECOND);
    fixture.done(jobs.handle.trigger("j")).unwrap();
    fixture.advance(MS);
    assert_eq!(fixture.log.entries().len(), 1);
}

#[test]
fn request_waits_for_current_run() {
    let fixture = Fixture::new();
    let fleet = fleet(&fixture, 60 * SECOND, 20 * SECOND);
    fixture.advance(61 * SECOND);
    for _ in 0..2 {
        fixture.done(fleet[0].1.handle.trigger("j")).unwrap();
    }
    fixture.advance(15 * SECOND);
    assert_eq!(fixture.log.entries().len(), 1);
    fixture.advance(30 * SECOND);
    assert_eq!(fixture.log.entries().len(), 3);
    assert!(fixture.log.entries().windows(2).all(|runs| runs[0].ended <= Some(runs[1].began)));
}

#[test]
fn late_request_does_not_start() {
    let (fixture, [host]) = Fixture::hosts(["d"]);
    let until = after(&fixture, 5 * SECOND);
    fixture.done(host.redlock.trigger_job("j").until(until)).unwrap();
    fixture.advance(6 * SECOND);
    let _fleet = fleet(&fixture, 3_600 * SECOND, Duration::ZERO);
    fixture.advance(20 * SECOND);
    assert_eq!(fixture.log.entries().len(), 0);
}

#[test]
fn refused_takeover_starts_nothing() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let jobs = host.start([host.job("j", Schedule::every(3_600 * SECOND), Duration::ZERO)]);
    fixture.advance(SECOND);
    host.wire.apply(
        Fate::Refused,
        |node, op| matches!(op, Op::Claim(claim) if claim.job.contains("control") && node > 1),
    );
    let requested = fixture.host("b");
    fixture.done(requested.redlock.trigger_job("j")).unwrap();
    fixture.advance(20 * SECOND);
    assert_eq!(fixture.log.entries().len(), 0);
    assert_eq!(jobs.status("j").counts.started, 0);
}

#[test]
fn bad_commands_send_nothing() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let jobs = host.start([host.job("j", Schedule::every(3_600 * SECOND), Duration::ZERO)]);
    fixture.advance(SECOND);
    host.wire.all_sent();
    let redlock = &host.redlock;
    let past = after(&fixture, Duration::ZERO);
    for command in [
        redlock.pause_job(""),
        redlock.pause_job("a\nb"),
        redlock.pause_job("j").by("x".repeat(129)),
        redlock.pause_job("j").by(""),
        redlock.pause_job("j").why("x".repeat(257)),
        redlock.pause_job("j").why("a\nb"),
        redlock.pause_job("j").until(past),
    ] {
        let error = fixture.done(command).unwrap_err();
        assert!(matches!(error, ControlError::Invalid { .. }), "{error}");
    }
    let error = fixture.done(jobs.handle.pause("none")).unwrap_err();
    assert!(matches!(error, ControlError::UnknownJob(_)), "{error}");
    assert_eq!(host.wire.all_sent(), [].into());
}

#[test]
fn requests_are_limited() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    for _ in 0..JobControl::MAX_REQUESTS {
        fixture.done(host.redlock.trigger_job("j")).unwrap();
    }
    let error = fixture.done(host.redlock.trigger_job("j")).unwrap_err();
    assert_eq!(error, ControlError::TooManyRequests { job: "j".into(), requested: 8 });
    let ids: Vec<_> = control(&fixture, &host.redlock).requested.iter().map(|it| it.id).collect();
    assert!(ids.is_sorted() && ids.len() == 8, "{ids:?}");
}

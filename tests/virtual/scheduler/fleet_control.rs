//! Pauses and requested runs of the whole fleet.

use std::{
    future::IntoFuture,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tower_redlock::{
    Redlock, Schedule,
    node::Op,
    scheduler::{ControlError, JobControl, JobEventKind, JobState, MissReason, Missed},
    time::Clock,
};

use crate::scheduler::{
    scene::{MS, RunningScheduler, SECOND, Scene, Site},
    site::Fate,
};

/// Drives a command for at most 3 s.
pub(crate) fn done<T: Send + 'static>(
    scene: &Scene,
    command: impl IntoFuture<Output = T, IntoFuture: Send + 'static>,
) -> T {
    let mut task = scene.clock.spawn(command.into_future());
    for _ in 0..30 {
        scene.clock.settle();
        if let Some(result) = task.take() {
            return result;
        }
        scene.advance(100 * MS);
    }
    panic!("it does not end");
}

fn control(scene: &Scene, redlock: &Redlock) -> JobControl {
    let redlock = redlock.clone();
    done(scene, async move { redlock.job_control("j").await }).unwrap()
}

fn after(scene: &Scene, start: Duration) -> SystemTime {
    UNIX_EPOCH + scene.clock.wall() + start
}

fn fleet(scene: &Scene, period: Duration, takes: Duration) -> [(Site, RunningScheduler); 3] {
    ["a", "b", "c"].map(|name| {
        let site = scene.site(name);
        let jobs = site.start([site.job("j", Schedule::every(period), takes)]);
        (site, jobs)
    })
}

#[test]
fn pause_stops_every_replica() {
    let scene = Scene::new();
    let mut fleet = fleet(&scene, SECOND, Duration::ZERO);
    scene.advance(2_500 * MS);
    assert_eq!(scene.log.ticks(), [1_000, 2_000]);
    let pause = fleet[0].1.handle.pause("j").by("ann").why("the disk is full");
    done(&scene, pause).unwrap();
    scene.advance(10 * SECOND);
    assert_eq!(scene.log.ticks(), [1_000, 2_000]);
    for (_, jobs) in &mut fleet {
        let status = jobs.status("j");
        let why = Some("the disk is full".into());
        assert_eq!(status.state, JobState::Paused { by: "ann".into(), why, until: None });
        assert_eq!((status.paused_here, status.next_tick), (None, None));
        assert_eq!(&*status.control.paused.unwrap().by, "ann");
    }
    done(&scene, fleet[2].1.handle.resume("j")).unwrap();
    scene.advance(1_500 * MS);
    let by = |jobs: &mut RunningScheduler| {
        jobs.new_events().into_iter().find_map(|event| match event.kind {
            JobEventKind::Missed { why: MissReason::Paused { by }, .. } => Some(by),
            _ => None,
        })
    };
    let by: Vec<_> = fleet.iter_mut().filter_map(|(_, jobs)| by(jobs)).collect();
    assert!(!by.is_empty() && by.iter().all(|by| &**by == "ann"), "{by:?}");
    assert!(scene.log.ticks().contains(&13_000), "{:?}", scene.log.ticks());
}

/// No replica reads the control of all jobs between the resume and the tick.
#[test]
fn resume_is_seen_before_next_tick() {
    let scene = Scene::new();
    let fleet = fleet(&scene, 100 * MS, Duration::ZERO);
    done(&scene, fleet[0].0.redlock.pause_job("j")).unwrap();
    scene.advance(20 * SECOND);
    let before = scene.log.ticks().len();
    let fourth = scene.site("d");
    done(&scene, fourth.redlock.resume_job("j")).unwrap();
    scene.advance(110 * MS);
    assert_eq!(scene.log.ticks().len(), before + 1);
}

#[test]
fn pause_outlives_every_replica() {
    let scene = Scene::new();
    for (site, jobs) in fleet(&scene, SECOND, Duration::ZERO) {
        let _ = done(&scene, jobs.handle.pause("j").by(site.name)).is_ok();
        site.crash();
    }
    let site = scene.site("later");
    let jobs = site.start([site.job("j", Schedule::every(SECOND), Duration::ZERO)]);
    scene.advance(30 * SECOND);
    assert_eq!(scene.log.ticks(), [0_u64; 0]);
    assert_eq!(&*jobs.status("j").control.paused.unwrap().by, "c");
    assert_eq!(control(&scene, &site.redlock), jobs.status("j").control);
}

#[test]
fn pause_ends_at_given_time() {
    let scene = Scene::new();
    let fleet = fleet(&scene, SECOND, Duration::ZERO);
    let until = after(&scene, 10_500 * MS);
    done(&scene, fleet[0].0.redlock.pause_job("j").until(until)).unwrap();
    scene.advance(10 * SECOND);
    assert_eq!(scene.log.ticks(), [0_u64; 0]);
    scene.advance(2 * SECOND);
    // The latest tick is still on time.
    assert_eq!(scene.log.ticks()[..2], [10_000, 11_000], "it needs no resume");
    assert!(scene.log.entries()[0].began >= 10_500 * MS);
    assert_eq!(control(&scene, &fleet[1].0.redlock).paused, None);
}

#[test]
fn pause_during_acquire_stops_the_tick() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    let jobs =
        a.start([a.job("j", Schedule::every(SECOND), Duration::ZERO).missed(Missed::RunLatest)]);
    scene.advance(500 * MS);
    done(&scene, b.redlock.pause_job("j").by("b")).unwrap();
    assert!(jobs.status("j").control.paused.is_none(), "it was not read yet");
    scene.advance(SECOND);
    assert_eq!(scene.log.ticks(), [0_u64; 0]);
    assert!(matches!(jobs.status("j").state, JobState::Paused { .. }));
}

#[test]
fn unreadable_control_starts_nothing() {
    let scene = Scene::new();
    let site = scene.site("a");
    let mut jobs = site.start([site.job("j", Schedule::every(SECOND), Duration::ZERO)]);
    scene.advance(500 * MS);
    site.wire.judge(|node, op| match op {
        Op::Claims(names) if names[0].contains("control") && node > 1 => Fate::Refused,
        _ => Fate::Passes,
    });
    scene.advance(SECOND);
    assert_eq!(scene.log.ticks(), [0_u64; 0]);
    assert!(jobs.event_names().contains(&"unavailable"));
    site.wire.calm();
    scene.advance(10 * SECOND);
    assert!(!scene.log.ticks().is_empty());
}

#[test]
fn request_runs_once_in_fleet() {
    let scene = Scene::new();
    let mut fleet = fleet(&scene, 3_600 * SECOND, SECOND);
    scene.advance(SECOND);
    let fourth = scene.site("d");
    done(&scene, fourth.redlock.pause_job("j")).unwrap();
    let id = done(&scene, fourth.redlock.trigger_job("j").by("ann").why("now")).unwrap();
    let [request] = &control(&scene, &fourth.redlock).requested[..] else { panic!("one") };
    assert_eq!((request.id, &*request.by, request.why.as_deref()), (id, "ann", Some("now")));
    scene.advance(20 * SECOND);
    assert_eq!(scene.log.entries().len(), 1, "although it is paused");
    assert_eq!(control(&scene, &fourth.redlock).requested, []);
    let events: Vec<_> = fleet.iter_mut().flat_map(|(_, jobs)| jobs.new_events()).collect();
    assert!(events.iter().all(|event| event.trigger == Some(id)), "{events:?}");
    let names: Vec<_> =
        events.iter().map(|event| crate::scheduler::scene::event_name(&event.kind)).collect();
    assert_eq!(names, ["started", "finished"]);
    scene.advance(60 * SECOND);
    assert_eq!(scene.log.entries().len(), 1);
}

#[test]
fn own_request_starts_at_once() {
    let scene = Scene::new();
    let site = scene.site("a");
    let jobs = site.start([site.job("j", Schedule::every(3_600 * SECOND), Duration::ZERO)]);
    scene.advance(SECOND);
    done(&scene, jobs.handle.trigger("j")).unwrap();
    scene.advance(MS);
    assert_eq!(scene.log.entries().len(), 1);
}

#[test]
fn request_waits_for_current_run() {
    let scene = Scene::new();
    let fleet = fleet(&scene, 60 * SECOND, 20 * SECOND);
    scene.advance(61 * SECOND);
    for _ in 0..2 {
        done(&scene, fleet[0].1.handle.trigger("j")).unwrap();
    }
    scene.advance(15 * SECOND);
    assert_eq!(scene.log.entries().len(), 1);
    scene.advance(30 * SECOND);
    assert_eq!(scene.log.entries().len(), 3);
    assert!(scene.log.entries().windows(2).all(|runs| runs[0].ended <= Some(runs[1].began)));
}

#[test]
fn late_request_does_not_start() {
    let scene = Scene::new();
    let site = scene.site("d");
    let until = after(&scene, 5 * SECOND);
    done(&scene, site.redlock.trigger_job("j").until(until)).unwrap();
    scene.advance(6 * SECOND);
    let _fleet = fleet(&scene, 3_600 * SECOND, Duration::ZERO);
    scene.advance(20 * SECOND);
    assert_eq!(scene.log.entries().len(), 0);
}

#[test]
fn refused_takeover_starts_nothing() {
    let scene = Scene::new();
    let site = scene.site("a");
    let jobs = site.start([site.job("j", Schedule::every(3_600 * SECOND), Duration::ZERO)]);
    scene.advance(SECOND);
    site.wire.judge(|node, op| match op {
        Op::Claim(claim) if claim.job.contains("control") && node > 1 => Fate::Refused,
        _ => Fate::Passes,
    });
    let requested = scene.site("b");
    done(&scene, requested.redlock.trigger_job("j")).unwrap();
    scene.advance(20 * SECOND);
    assert_eq!(scene.log.entries().len(), 0);
    assert_eq!(jobs.status("j").counts.started, 0);
}

#[test]
fn bad_commands_send_nothing() {
    let scene = Scene::new();
    let site = scene.site("a");
    let jobs = site.start([site.job("j", Schedule::every(3_600 * SECOND), Duration::ZERO)]);
    scene.advance(SECOND);
    site.wire.all_sent();
    let redlock = &site.redlock;
    let past = after(&scene, Duration::ZERO);
    for command in [
        redlock.pause_job(""),
        redlock.pause_job("a\nb"),
        redlock.pause_job("j").by("x".repeat(129)),
        redlock.pause_job("j").by(""),
        redlock.pause_job("j").why("x".repeat(257)),
        redlock.pause_job("j").why("a\nb"),
        redlock.pause_job("j").until(past),
    ] {
        let error = done(&scene, command).unwrap_err();
        assert!(matches!(error, ControlError::Invalid { .. }), "{error}");
    }
    let error = done(&scene, jobs.handle.pause("none")).unwrap_err();
    assert!(matches!(error, ControlError::UnknownJob(_)), "{error}");
    assert_eq!(site.wire.all_sent(), [].into());
}

#[test]
fn requests_are_limited() {
    let scene = Scene::new();
    let site = scene.site("a");
    for _ in 0..JobControl::MAX_REQUESTS {
        done(&scene, site.redlock.trigger_job("j")).unwrap();
    }
    let error = done(&scene, site.redlock.trigger_job("j")).unwrap_err();
    assert_eq!(error, ControlError::TooManyRequests { job: "j".into(), requested: 8 });
    let ids: Vec<_> = control(&scene, &site.redlock).requested.iter().map(|it| it.id).collect();
    assert!(ids.is_sorted() && ids.len() == 8, "{ids:?}");
}

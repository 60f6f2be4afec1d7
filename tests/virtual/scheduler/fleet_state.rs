//! What a replica knows of its fleet, and how it learns of runs of other replicas.

use std::time::{Duration, UNIX_EPOCH};

use std::future::IntoFuture;

use tower_redlock::{
    Schedule,
    node::{ClaimOp, Op, PrepareOp},
    schedule::WallTime,
    scheduler::{Claim, JobEventKind, JobState, MissReason, Missed, Overlap},
    testing::ManualClock,
    time::Clock,
};

use crate::scheduler::{
    scene::{MS, RunningScheduler, SECOND, Scene, Site, after_start, with_timeout},
    site::Fate,
};

const MINUTE: Duration = Duration::from_secs(60);

/// The fleet's latest tick, in milliseconds after the first moment.
fn fleet_tick(jobs: &RunningScheduler, job: &str) -> u64 {
    let tick = jobs.status(job).fleet.unwrap().tick.unwrap();
    after_start(WallTime::since_epoch(tick.duration_since(UNIX_EPOCH).unwrap()))
}

#[test]
fn forgetful_nodes_repeat_no_own_tick() {
    let scene = Scene::new();
    let site = scene.site("a");
    let job = site.job("j", Schedule::every(10 * SECOND), Duration::ZERO);
    let jobs = site.start([job.overlap(Overlap::Queue)]);
    scene.advance(10_500 * MS);
    scene.nodes.forget_unguarded(0..5);
    // The replica reads the nodes under the lock.
    jobs.handle.trigger_here("j").unwrap();
    scene.advance(10 * SECOND);
    assert_eq!(scene.log.ticks(), [10_000, 10_500, 20_000]);
}

#[test]
fn ticks_before_forgetting_count_as_started() {
    let scene = Scene::new();
    let site = scene.site("a");
    let forgot_at = ManualClock::new().wall() + 25 * SECOND;
    // A node's floor is 60 s after the time at which it forgot.
    let floor = u64::try_from((forgot_at + 60 * SECOND).as_micros()).unwrap();
    site.wire.judge(move |node, _| if node > 1 { Fate::Floor(floor) } else { Fate::Passes });
    let mut jobs = site.start([site.job("j", Schedule::every(10 * SECOND), Duration::ZERO)]);
    scene.advance(41 * SECOND);
    assert_eq!(scene.log.ticks(), [30_000, 40_000]);
    let missed = jobs.new_events().into_iter().find_map(|event| match event.kind {
        JobEventKind::Missed { count, first, why } => Some((count, after_start(first), why)),
        _ => None,
    });
    // A TTL before the floor nobody could run one; whether an earlier one ran is unknown.
    assert_eq!(missed, Some((1, 20_000, MissReason::Forgotten)));
    assert_eq!(jobs.status("j").counts.missed, 1, "once");
}

#[test]
fn run_before_forgetting_is_not_repeated() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    let job = |site: &Site| site.job("j", Schedule::every(10 * SECOND), SECOND).claim(Claim::AtEnd);
    let _a = a.start([job(&a)]);
    scene.advance(10_500 * MS);
    a.crash();
    let forgot_at = ManualClock::new().wall() + 25 * SECOND;
    let floor = u64::try_from((forgot_at + 60 * SECOND).as_micros()).unwrap();
    b.wire.judge(move |_, _| Fate::Floor(floor));
    let _b = b.start([job(&b)]);
    scene.advance(25 * SECOND);
    assert_eq!(scene.log.ticks(), [10_000, 30_000]);
}

#[test]
fn remote_runs_during_pause_count() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    let job = |site: &Site| {
        site.job("j", Schedule::every(100 * SECOND), Duration::ZERO).start_within(5 * SECOND)
    };
    let (_a, mut at_b) = (a.start([job(&a)]), b.start([job(&b)]));
    at_b.handle.pause_here("j").unwrap();
    scene.advance(1_050 * SECOND);
    assert_eq!(scene.log.sites(), ["a"; 10]);
    at_b.handle.resume_here("j").unwrap();
    scene.advance(SECOND);
    assert_eq!((at_b.event_names(), at_b.status("j").counts.missed), (vec![], 0));
    assert_eq!(fleet_tick(&at_b, "j"), 1_000_000);
    // Ticks that no replica runs are missed.
    a.crash();
    at_b.handle.pause_here("j").unwrap();
    scene.advance(300 * SECOND);
    at_b.handle.resume_here("j").unwrap();
    scene.advance(SECOND);
    assert_eq!(at_b.status("j").counts.missed, 3);
}

#[test]
fn remote_runs_during_partition_count() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    let job = |site: &Site| {
        site.job("j", Schedule::every(100 * SECOND), Duration::ZERO).start_within(5 * SECOND)
    };
    let (_a, mut at_b) = (a.start([job(&a)]), b.start([job(&b)]));
    scene.clock.settle();
    b.replica.partition(0..5);
    scene.advance(350 * SECOND);
    assert_eq!(scene.log.sites(), ["a"; 3]);
    assert_eq!(at_b.event_names(), ["unavailable"; 3]);
    let state = at_b.status("j").state;
    assert!(matches!(state, JobState::WaitingForNodes { .. }), "{state:?}");
    b.replica.heal(0..5);
    scene.advance(6 * SECOND);
    assert_eq!((at_b.event_names(), at_b.status("j").counts.missed), (vec![], 0));
    assert_eq!(fleet_tick(&at_b, "j"), 300_000);
    let state = at_b.status("j").state;
    assert!(matches!(state, JobState::WaitingForTick { .. }), "{state:?}");
    // Ticks that no replica runs are missed, and reported when the nodes answer.
    a.crash();
    b.replica.partition(0..5);
    scene.advance(200 * SECOND);
    assert_eq!(at_b.event_names(), ["unavailable"; 2]);
    b.replica.heal(0..5);
    scene.advance(6 * SECOND);
    assert_eq!((at_b.event_names(), at_b.status("j").counts.missed), (vec!["missed"], 2));
}

#[test]
fn possible_majority_claim_is_not_repeated() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    let job = |site: &Site| site.job("j", Schedule::every(100 * SECOND), Duration::ZERO);
    let (_a, at_b) = (a.start([job(&a)]), b.start([job(&b)]));
    scene.clock.settle();
    b.replica.partition(0..5);
    // Exactly a majority stores it, of which two nodes are down when the other replica reads.
    a.wire.judge(|node, op| match op {
        Op::Claim(_) if node > 2 => Fate::Refused,
        _ => Fate::Passes,
    });
    scene.advance(100 * SECOND);
    assert_eq!(scene.log.sites(), ["a"]);
    a.crash();
    scene.nodes.stop(0..2);
    b.replica.heal(0..5);
    scene.advance(20 * SECOND);
    assert_eq!(scene.log.sites(), ["a"]);
    assert_eq!(at_b.status("j").fleet.unwrap().owner.as_deref(), Some("a"));
    scene.advance(90 * SECOND);
    assert_eq!(scene.log.sites(), ["a", "b"]);
}

#[test]
fn remote_run_shows_in_status() {
    let scene = Scene::new();
    let sites = [scene.site("a"), scene.site("b")];
    let jobs = sites
        .each_ref()
        .map(|site| site.start([site.job("j", Schedule::every(100 * SECOND), 50 * SECOND)]));
    scene.advance(101 * SECOND);
    let ran = scene.log.sites();
    let idle = usize::from(ran == ["a"]);
    let fleet = jobs[idle].status("j").fleet.expect("the replica has read the claim");
    assert_eq!((fleet.owner.as_deref(), fleet.ended), (Some(ran[0]), None));
    assert_eq!(fleet_tick(&jobs[idle], "j"), 100_000);
}

#[test]
fn unconfirmed_claim_is_no_broken_run() {
    with_timeout(20 * SECOND, || {
        let scene = Scene::new();
        let site = scene.site("a");
        let job = site.job("j", Schedule::every(100 * SECOND), Duration::ZERO);
        let jobs = site.start([job.claim(Claim::AtEnd).start_within(5 * SECOND)]);
        scene.advance(99 * SECOND);
        // The nodes store the claim, and their answers get lost.
        site.wire.judge(|_, op| match op {
            Op::Claim(_) => Fate::Unanswered,
            _ => Fate::Passes,
        });
        scene.advance(4 * SECOND);
        site.wire.judge(|_, _| Fate::Refused);
        scene.advance(10 * SECOND);
        site.wire.calm();
        // Queries with and without the lock have the same result.
        scene.advance(10 * SECOND);
        assert_eq!((scene.log.ticks(), jobs.status("j").counts.missed), (vec![], 1));
        scene.advance(80 * SECOND);
        assert_eq!(scene.log.ticks(), [200_000]);
    });
}

#[test]
fn jobs_have_separate_claims() {
    let scene = Scene::new();
    let jobs = |site: &Site| {
        let job = |name, period| site.job(name, Schedule::every(period * SECOND), Duration::ZERO);
        site.start([job("j", 10), job("k", 60)])
    };
    let (a, b) = (scene.site("a"), scene.site("b"));
    let _a = jobs(&a);
    scene.advance(85 * SECOND);
    let at_b = jobs(&b);
    scene.clock.settle();
    assert_eq!((fleet_tick(&at_b, "j"), fleet_tick(&at_b, "k")), (80_000, 60_000));
}

#[test]
fn failed_registration_is_retried() {
    let scene = Scene::new();
    let job = |site: &Site| {
        site.job("j", Schedule::every(MINUTE), Duration::ZERO)
            .start_within(5 * SECOND)
            .missed(Missed::RunAll { at_most: 100 })
    };
    let first = scene.site("a");
    let _first = first.start([job(&first)]);
    scene.clock.settle();
    scene.nodes.stop(0..3);
    scene.advance(20 * SECOND);
    scene.nodes.start(0..3);
    scene.advance(20 * SECOND);
    first.crash();
    scene.advance(3 * MINUTE);
    let second = scene.site("b");
    let _second = second.start([job(&second)]);
    scene.advance(SECOND);
    assert_eq!(scene.log.ticks(), [60_000, 120_000, 180_000]);
}

#[test]
fn late_registration_keeps_newer_claims() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    let job = |site: &Site| {
        site.job("j", Schedule::every(100 * SECOND), Duration::ZERO).missed(Missed::RunLatest)
    };
    b.wire.judge(|_, op| match op {
        Op::Acquire(_) => Fate::Refused,
        _ => Fate::Passes,
    });
    let at_b = b.start([job(&b)]);
    // The job is still registered while paused.
    at_b.handle.pause_here("j").unwrap();
    scene.advance(SECOND);
    let _a = a.start([job(&a)]);
    scene.advance(100 * SECOND);
    assert_eq!(scene.log.sites(), ["a"]);
    b.wire.calm();
    b.wire.sent();
    scene.advance(20 * SECOND);
    let sent = b.wire.sent_by_kind();
    assert!(sent.contains_key("prepare") && !sent.contains_key("claim"), "{sent:?}");
    assert_eq!(fleet_tick(&at_b, "j"), 100_000);
}

#[test]
fn delayed_remote_tick_sends_two_events() {
    let scene = Scene::new();
    let (a, b, other) = (scene.site("a"), scene.site("b"), scene.site("other"));
    let start = |site: &Site| site.start([site.job("j", Schedule::every(100 * SECOND), MS)]);
    let mut jobs = [start(&a), start(&b)];
    scene.advance(99 * SECOND);
    let mut taken = scene
        .clock
        .spawn(other.redlock.lock(tower_redlock::Resource::of_job("j").unwrap()).into_future());
    scene.advance(3 * SECOND);
    drop(taken.take().unwrap().unwrap());
    scene.advance(20 * SECOND);
    let ran = usize::from(scene.log.sites() == ["b"]);
    assert_eq!(jobs[ran].event_names(), ["held", "claimed", "started", "finished"]);
    assert_eq!(jobs[1 - ran].event_names(), ["held", "already started"]);
    assert_eq!(jobs[1 - ran].status("j").counts.skipped, 0, "the tick was run");
}

#[test]
fn trigger_keeps_the_broken_run_open() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    let job = |site: &Site| {
        site.job("j", Schedule::every(3600 * SECOND), 30 * SECOND).claim(Claim::AtEnd)
    };
    let (_a, at_b) = (a.start([job(&a)]), b.start([job(&b)]));
    at_b.handle.pause_here("j").unwrap();
    scene.advance(3_601 * SECOND);
    a.crash();
    scene.advance(20 * SECOND);
    at_b.handle.trigger_here("j").unwrap();
    scene.advance(60 * SECOND);
    assert_eq!(scene.log.sites(), ["a", "b"], "the triggered run");
    at_b.handle.resume_here("j").unwrap();
    scene.advance(60 * SECOND);
    let runs = scene.log.entries();
    assert_eq!((runs.len(), runs[2].tick, runs[2].attempt), (3, runs[0].tick, 2));
}

#[test]
fn lost_lock_repeats_only_at_end() {
    for claim in [Claim::AtStart, Claim::AtEnd] {
        let scene = Scene::new();
        let site = scene.site("a");
        let job = site.job("j", Schedule::every(3600 * SECOND), 30 * SECOND).claim(claim);
        let jobs = site.start([job]);
        scene.advance(3_600 * SECOND);
        // Only renewals are refused: an end could be stored.
        site.wire.judge(|_, op| match op {
            Op::Extend(_) => Fate::Refused,
            _ => Fate::Passes,
        });
        scene.advance(10 * SECOND);
        assert_eq!(jobs.status("j").counts.lost, 1);
        site.wire.calm();
        scene.advance(60 * SECOND);
        let attempts: Vec<u32> = scene.log.entries().iter().map(|run| run.attempt).collect();
        let expected: &[_] = if claim == Claim::AtEnd { &[1, 2] } else { &[1] };
        assert_eq!(attempts, expected);
    }
}

#[test]
fn panicking_schedule_affects_one_job() {
    let scene = Scene::new();
    let site = scene.site("a");
    let last = WallTime::since_epoch(ManualClock::new().wall() + 25 * SECOND);
    let breaks = Schedule::custom("breaks", move |after: WallTime| {
        assert!(after < last, "no more ticks");
        Schedule::every(10 * SECOND).next(after, None)
    });
    let (bad, good) = (Duration::ZERO, Duration::ZERO);
    let every = Schedule::every(10 * SECOND);
    let jobs = site.start([site.job("bad", breaks, bad), site.job("good", every, good)]);
    scene.advance(60 * SECOND);
    let ran = |job: &str| scene.log.entries().iter().filter(|run| run.job == job).count();
    assert_eq!((ran("bad"), ran("good")), (2, 6));
    let state = jobs.status("bad").state;
    assert!(matches!(state, JobState::BackingOff { .. }), "{state:?}");
    let handle = jobs.handle.clone();
    let mut report = scene.clock.spawn(async move { handle.shutdown(SECOND).await });
    scene.clock.settle();
    assert!(report.take().is_some(), "the shutdown returns at once");
}

#[test]
fn manager_shutdown_ends_its_jobs() {
    with_timeout(20 * SECOND, || {
        let scene = Scene::new();
        let (a, b) = (scene.site("a"), scene.site("b"));
        let job = |site: &Site| site.job("j", Schedule::every(10 * SECOND), 2 * SECOND);
        let running = a.start([job(&a)]);
        scene.clock.settle();
        scene.nodes.stop(0..5);
        // It never reached the nodes.
        let waiting = b.start([job(&b)]);
        scene.advance(MS);
        for (site, jobs) in [(&a, &running), (&b, &waiting)] {
            let redlock = site.redlock.clone();
            let _down = scene.clock.spawn(async move { redlock.shutdown().await });
            scene.advance(30 * SECOND);
            site.wire.sent();
            scene.advance(100 * SECOND);
            assert_eq!(site.wire.sent(), 0);
            let handle = jobs.handle.clone();
            let mut report = scene.clock.spawn(async move { handle.shutdown(MINUTE).await });
            scene.clock.settle();
            assert!(report.take().is_some(), "the shutdown returns at once");
        }
    });
}

#[test]
fn silent_minority_delays_no_start() {
    let scene = Scene::new();
    let site = scene.site("a");
    let _jobs = site.start([site.job("j", Schedule::every(10 * SECOND), Duration::ZERO)]);
    scene.clock.settle();
    scene.nodes.freeze([1, 3]);
    // Two node timeouts, as for grants.
    site.wire.judge(|_, op| match op {
        Op::Prepare(PrepareOp { patience, .. }) | Op::Claim(ClaimOp { patience, .. })
            if *patience != 100 * MS =>
        {
            Fate::Refused
        }
        _ => Fate::Passes,
    });
    scene.advance(10 * SECOND);
    assert_eq!(scene.log.ticks(), [10_000], "at once");
}

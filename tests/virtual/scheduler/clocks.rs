//! Wall clocks that are set while jobs run.

use std::time::Duration;

use tower_redlock::{
    Schedule,
    node::{ClaimOp, Op},
    testing::ManualClock,
    time::Clock,
};

use crate::scheduler::{
    scene::{MS, RunningScheduler, SECOND, Scene, Site},
    site::Fate,
};

const MINUTE: Duration = Duration::from_secs(60);
const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);

/// The step at which the wall clock of the replica jumps; it is corrected 10 s later.
#[derive(Clone, Copy, Debug)]
enum Step {
    Registration,
    Idle,
    BetweenLockAndClaim,
    BetweenClaimAndStart,
    DuringTheRun,
    AtTheEnd,
}

use Step::{AtTheEnd, BetweenClaimAndStart, BetweenLockAndClaim, DuringTheRun, Idle, Registration};

const STEPS: [Step; 6] =
    [Registration, Idle, BetweenLockAndClaim, BetweenClaimAndStart, DuringTheRun, AtTheEnd];

fn jump(clock: &ManualClock, forward: bool) {
    let wall = clock.wall();
    clock.set_wall(if forward { wall + MONTH } else { wall.saturating_sub(MONTH) });
}

/// Sets the clock at the first operation of this kind.
fn jump_at(site: &Site, forward: bool, is_wanted: impl Fn(&Op) -> bool + Send + 'static) {
    let (clock, mut is_done) = (site.clock.clone(), false);
    site.wire.judge(move |_, op| {
        if !is_done && is_wanted(op) {
            is_done = true;
            jump(&clock, forward);
        }
        Fate::Passes
    });
}

fn start(site: &Site) -> RunningScheduler {
    site.start([site.job("j", Schedule::every(MINUTE), 5 * SECOND)])
}

/// Runs a replica whose clock jumps at a step of the first tick's run; at 100 s it crashes, and
/// another one runs until the tenth minute.
fn run(scene: &Scene, [first, second]: [Site; 2], step: Step, forward: bool) -> Vec<u64> {
    let set_at = match step {
        Registration => Duration::ZERO,
        Idle => 30 * SECOND,
        BetweenLockAndClaim | BetweenClaimAndStart => MINUTE,
        DuringTheRun => 62 * SECOND,
        AtTheEnd => 64_999 * MS,
    };
    if let Registration = step {
        jump(&first.clock, forward);
    }
    let _first = start(&first);
    scene.advance(set_at.saturating_sub(MS));
    match step {
        Registration => {}
        Idle | DuringTheRun | AtTheEnd => jump(&first.clock, forward),
        BetweenLockAndClaim => jump_at(&first, forward, |op| matches!(op, Op::Prepare(_))),
        BetweenClaimAndStart => {
            jump_at(
                &first,
                forward,
                |op| matches!(op, Op::Claim(ClaimOp { claim, .. }) if claim.number == 0),
            );
        }
    }
    scene.advance(10 * SECOND);
    first.clock.set_wall(scene.clock.wall());
    first.wire.calm();
    scene.advance((90 * SECOND).saturating_sub(set_at));
    first.crash();
    let _second = start(&second);
    scene.advance(501 * SECOND);
    scene.log.ticks()
}

#[test]
fn jump_at_any_step_changes_nothing() {
    for step in STEPS {
        for forward in [true, false] {
            let scene = Scene::new();
            let sites = ["a", "b"].map(|name| scene.timed_site(name));
            let ran = run(&scene, sites, step, forward);
            let expected: Vec<u64> = (1..=10).map(|minute| minute * 60_000).collect();
            assert_eq!(ran, expected, "{step:?}, forward: {forward}");
        }
    }
}

/// Over nodes without clocks of their own, times after a jump are stored.
#[test]
fn stored_future_time_silences_no_job() {
    for step in [BetweenLockAndClaim, BetweenClaimAndStart, DuringTheRun, AtTheEnd] {
        let scene = Scene::new();
        let sites =
            ["a", "b"].map(|name| scene.site_at(name, scene.clock.ahead_by(Duration::ZERO)));
        let mut ran = run(&scene, sites, step, true);
        ran.retain(|tick| *tick < 3_600_000);
        let expected: Vec<u64> = (1..=10).map(|minute| minute * 60_000).collect();
        assert_eq!(ran, expected, "{step:?}");
    }
}

#[test]
fn clock_ahead_extends_no_delay() {
    for tells_time in [true, false] {
        let scene = Scene::new();
        let site = scene.site_of("a", scene.clock.ahead_by(Duration::ZERO), tells_time);
        let _jobs = site.start([site.job("j", Schedule::every_after(MINUTE), 5 * SECOND)]);
        scene.advance(3 * SECOND);
        jump(&site.clock, true);
        scene.advance(3 * SECOND);
        site.clock.set_wall(scene.clock.wall());
        scene.advance(2 * MINUTE);
        let began: Vec<u64> = scene.log.entries().iter().map(|run| run.began.as_secs()).collect();
        let first = began[0];
        // From the end, or from the start if the end is not known.
        let second = if tells_time { first + 65 } else { first + 60 };
        assert_eq!(began[1], second, "{began:?}");
    }
}

#[test]
fn partitioned_replica_keeps_known_time() {
    let scene = Scene::new();
    let site = scene.timed_site("a");
    let jobs = start(&site);
    scene.advance(30 * SECOND);
    site.replica.partition(0..5);
    jump(&site.clock, true);
    scene.advance(20 * SECOND);
    let next = jobs.status("j").next_tick.unwrap();
    site.replica.heal(0..5);
    scene.advance(15 * SECOND);
    assert_eq!(scene.log.ticks(), [60_000]);
    assert_eq!(next, scene.log.entries()[0].tick.into());
}

#[test]
fn trigger_with_clock_ahead_burns_none() {
    let scene = Scene::new();
    let (ahead, b) = (scene.timed_site("ahead"), scene.timed_site("b"));
    ahead.clock.set_wall(ahead.clock.wall() + 20 * SECOND);
    let job = |site: &Site| site.job("j", Schedule::every(100 * SECOND), Duration::ZERO);
    let (at_ahead, _b) = (ahead.start([job(&ahead)]), b.start([job(&b)]));
    at_ahead.handle.pause_here("j").unwrap();
    scene.advance(95 * SECOND);
    at_ahead.handle.trigger_here("j").unwrap();
    scene.advance(10 * SECOND);
    assert_eq!((scene.log.ticks(), scene.log.sites()), (vec![95_000, 100_000], vec!["ahead", "b"]));
}

#[test]
fn server_floor_ahead_burns_no_ticks() {
    let scene = Scene::new();
    let site = scene.site("a");
    let wrong = u64::try_from((scene.clock.wall() + MONTH).as_micros()).unwrap();
    site.wire.judge(move |node, _| if node == 2 { Fate::Floor(wrong) } else { Fate::Passes });
    let _jobs = start(&site);
    scene.advance(2 * MINUTE + SECOND);
    assert_eq!(scene.log.ticks(), [60_000, 120_000]);
}

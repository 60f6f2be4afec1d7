//! Wall clocks that are set while jobs run.

use std::time::Duration;

use tower_redlock::{
    Schedule,
    node::{ClaimOp, Op},
    testing::ManualClock,
    time::Clock,
};

use crate::scheduler::{
    fixture::{Fixture, Host, MINUTE, MS, RunningScheduler, SECOND},
    wire::Fate,
};

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
fn jump_at(host: &Host, forward: bool, is_wanted: impl Fn(&Op) -> bool + Send + 'static) {
    let (clock, mut is_done) = (host.clock.clone(), false);
    host.wire.judge(move |_, op| {
        if !is_done && is_wanted(op) {
            is_done = true;
            jump(&clock, forward);
        }
        Fate::Passes
    });
}

fn start(host: &Host) -> RunningScheduler {
    host.start([host.job("j", Schedule::every(MINUTE), 5 * SECOND)])
}

/// Runs a replica whose clock jumps at a step of the first tick's run; at 100 s it crashes, and
/// another one runs until the tenth minute.
fn run(fixture: &Fixture, [first, second]: [Host; 2], step: Step, forward: bool) -> Vec<u64> {
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
    fixture.advance(set_at.saturating_sub(MS));
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
    fixture.advance(10 * SECOND);
    first.clock.set_wall(fixture.clock.wall());
    first.wire.calm();
    fixture.advance((90 * SECOND).saturating_sub(set_at));
    first.crash();
    let _second = start(&second);
    fixture.advance(501 * SECOND);
    fixture.log.ticks()
}

#[test]
fn jump_at_any_step_changes_nothing() {
    for step in STEPS {
        for forward in [true, false] {
            let fixture = Fixture::new();
            let hosts = ["a", "b"].map(|name| fixture.timed_host(name));
            let ran = run(&fixture, hosts, step, forward);
            let expected: Vec<u64> = (1..=10).map(|minute| minute * 60_000).collect();
            assert_eq!(ran, expected, "{step:?}, forward: {forward}");
        }
    }
}

/// Over nodes without clocks of their own, times after a jump are stored.
#[test]
fn stored_future_time_silences_no_job() {
    for step in [BetweenLockAndClaim, BetweenClaimAndStart, DuringTheRun, AtTheEnd] {
        let fixture = Fixture::new();
        let hosts =
            ["a", "b"].map(|name| fixture.host_at(name, fixture.clock.ahead_by(Duration::ZERO)));
        let mut ran = run(&fixture, hosts, step, true);
        ran.retain(|tick| *tick < 3_600_000);
        let expected: Vec<u64> = (1..=10).map(|minute| minute * 60_000).collect();
        assert_eq!(ran, expected, "{step:?}");
    }
}

#[test]
fn clock_ahead_extends_no_delay() {
    for tells_time in [true, false] {
        let fixture = Fixture::new();
        let host = fixture.host_of("a", fixture.clock.ahead_by(Duration::ZERO), tells_time);
        let _jobs = host.start([host.job("j", Schedule::every_after(MINUTE), 5 * SECOND)]);
        fixture.advance(3 * SECOND);
        jump(&host.clock, true);
        fixture.advance(3 * SECOND);
        host.clock.set_wall(fixture.clock.wall());
        fixture.advance(2 * MINUTE);
        let began: Vec<u64> = fixture.log.entries().iter().map(|run| run.began.as_secs()).collect();
        let first = began[0];
        // From the end, or from the start if the end is not known.
        let second = if tells_time { first + 65 } else { first + 60 };
        assert_eq!(began[1], second, "{began:?}");
    }
}

#[test]
fn partitioned_replica_keeps_known_time() {
    let fixture = Fixture::new();
    let host = fixture.timed_host("a");
    let jobs = start(&host);
    fixture.advance(30 * SECOND);
    host.replica.partition(0..5);
    jump(&host.clock, true);
    fixture.advance(20 * SECOND);
    let next = jobs.status("j").next_tick.unwrap();
    host.replica.heal(0..5);
    fixture.advance(15 * SECOND);
    assert_eq!(fixture.log.ticks(), [60_000]);
    assert_eq!(next, fixture.log.entries()[0].tick.into());
}

#[test]
fn trigger_with_clock_ahead_burns_none() {
    let fixture = Fixture::new();
    let (ahead, b) = (fixture.timed_host("ahead"), fixture.timed_host("b"));
    ahead.clock.set_wall(ahead.clock.wall() + 20 * SECOND);
    let job = |host: &Host| host.job("j", Schedule::every(100 * SECOND), Duration::ZERO);
    let (at_ahead, _b) = (ahead.start([job(&ahead)]), b.start([job(&b)]));
    at_ahead.handle.pause_here("j").unwrap();
    fixture.advance(95 * SECOND);
    at_ahead.handle.trigger_here("j").unwrap();
    fixture.advance(10 * SECOND);
    assert_eq!(
        (fixture.log.ticks(), fixture.log.hosts()),
        (vec![95_000, 100_000], vec!["ahead", "b"])
    );
}

#[test]
fn server_floor_ahead_burns_no_ticks() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let wrong = u64::try_from((fixture.clock.wall() + MONTH).as_micros()).unwrap();
    host.wire.judge(move |node, _| if node == 2 { Fate::Floor(wrong) } else { Fate::Passes });
    let _jobs = start(&host);
    fixture.advance(2 * MINUTE + SECOND);
    assert_eq!(fixture.log.ticks(), [60_000, 120_000]);
}

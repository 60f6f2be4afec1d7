//! What a replica knows of its fleet, and how it learns of runs of other replicas.

use std::time::{Duration, UNIX_EPOCH};

use tower_redlock::{
    Schedule,
    node::{ClaimOp, Op, PrepareOp},
    schedule::WallTime,
    scheduler::{Claim, JobState, Missed, Overlap},
    testing::ManualClock,
    time::Clock,
};

use crate::scheduler::{
    fixture::{Fixture, Host, MINUTE, MS, RunningScheduler, SECOND, after_start, with_timeout},
    wire::Fate,
};

/// The fleet's latest tick, in milliseconds after the first moment.
fn fleet_tick(jobs: &RunningScheduler, job: &str) -> u64 {
    let tick = jobs.status(job).fleet.unwrap().tick.unwrap();
    after_start(WallTime::since_epoch(tick.duration_since(UNIX_EPOCH).unwrap()))
}

#[test]
fn forgetful_nodes_repeat_no_own_tick() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = host.job("j", Schedule::every(10 * SECOND), Duration::ZERO);
    let jobs = host.start([job.overlap(Overlap::Queue)]);
    fixture.advance(10_500 * MS);
    fixture.nodes.forget_unguarded(0..5);
    // The replica reads the nodes under the lock.
    jobs.handle.trigger_here("j").unwrap();
    fixture.advance(10 * SECOND);
    assert_eq!(fixture.log.ticks(), [10_000, 10_500, 20_000]);
}

#[test]
fn run_before_forgetting_is_not_repeated() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let job = |host: &Host| host.job("j", Schedule::every(10 * SECOND), SECOND).claim(Claim::AtEnd);
    let _a = a.start([job(&a)]);
    fixture.advance(10_500 * MS);
    a.crash();
    let forgot_at = ManualClock::new().wall() + 25 * SECOND;
    let floor = u64::try_from((forgot_at + 60 * SECOND).as_micros()).unwrap();
    b.wire.judge(move |_, _| Fate::Floor(floor));
    let _b = b.start([job(&b)]);
    fixture.advance(25 * SECOND);
    assert_eq!(fixture.log.ticks(), [10_000, 30_000]);
}

#[test]
fn remote_runs_during_pause_count() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let job = |host: &Host| {
        host.job("j", Schedule::every(100 * SECOND), Duration::ZERO).start_within(5 * SECOND)
    };
    let (_a, mut at_b) = (a.start([job(&a)]), b.start([job(&b)]));
    at_b.handle.pause_here("j").unwrap();
    fixture.advance(1_050 * SECOND);
    assert_eq!(fixture.log.hosts(), ["a"; 10]);
    at_b.handle.resume_here("j").unwrap();
    fixture.advance(SECOND);
    assert_eq!((at_b.event_names(), at_b.status("j").counts.missed), (vec![], 0));
    assert_eq!(fleet_tick(&at_b, "j"), 1_000_000);
    // Ticks that no replica runs are missed.
    a.crash();
    at_b.handle.pause_here("j").unwrap();
    fixture.advance(300 * SECOND);
    at_b.handle.resume_here("j").unwrap();
    fixture.advance(SECOND);
    assert_eq!(at_b.status("j").counts.missed, 3);
}

#[test]
fn remote_runs_during_partition_count() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let job = |host: &Host| {
        host.job("j", Schedule::every(100 * SECOND), Duration::ZERO).start_within(5 * SECOND)
    };
    let (_a, mut at_b) = (a.start([job(&a)]), b.start([job(&b)]));
    fixture.clock.settle();
    b.replica.partition(0..5);
    fixture.advance(350 * SECOND);
    assert_eq!(fixture.log.hosts(), ["a"; 3]);
    assert_eq!(at_b.event_names(), ["unavailable"; 3]);
    let state = at_b.status("j").state;
    assert!(matches!(state, JobState::WaitingForNodes { .. }), "{state:?}");
    b.replica.heal(0..5);
    fixture.advance(6 * SECOND);
    assert_eq!((at_b.event_names(), at_b.status("j").counts.missed), (vec![], 0));
    assert_eq!(fleet_tick(&at_b, "j"), 300_000);
    let state = at_b.status("j").state;
    assert!(matches!(state, JobState::WaitingForTick { .. }), "{state:?}");
    // Ticks that no replica runs are missed, and reported when the nodes answer.
    a.crash();
    b.replica.partition(0..5);
    fixture.advance(200 * SECOND);
    assert_eq!(at_b.event_names(), ["unavailable"; 2]);
    b.replica.heal(0..5);
    fixture.advance(6 * SECOND);
    assert_eq!((at_b.event_names(), at_b.status("j").counts.missed), (vec!["missed"], 2));
}

#[test]
fn possible_majority_claim_is_not_repeated() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let job = |host: &Host| host.job("j", Schedule::every(100 * SECOND), Duration::ZERO);
    let (_a, at_b) = (a.start([job(&a)]), b.start([job(&b)]));
    fixture.clock.settle();
    b.replica.partition(0..5);
    // Exactly a majority stores it, of which two nodes are down when the other replica reads.
    a.wire.apply(Fate::Refused, |node, op| matches!(op, Op::Claim(_) if node > 2));
    fixture.advance(100 * SECOND);
    assert_eq!(fixture.log.hosts(), ["a"]);
    a.crash();
    fixture.nodes.stop(0..2);
    b.replica.heal(0..5);
    fixture.advance(20 * SECOND);
    assert_eq!(fixture.log.hosts(), ["a"]);
    assert_eq!(at_b.status("j").fleet.unwrap().owner.as_deref(), Some("a"));
    fixture.advance(90 * SECOND);
    assert_eq!(fixture.log.hosts(), ["a", "b"]);
}

#[test]
fn unconfirmed_claim_is_no_broken_run() {
    with_timeout(20 * SECOND, || {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let job = host.job("j", Schedule::every(100 * SECOND), Duration::ZERO);
        let jobs = host.start([job.claim(Claim::AtEnd).start_within(5 * SECOND)]);
        fixture.advance(99 * SECOND);
        // The nodes store the claim, and their answers get lost.
        host.wire.apply(Fate::Unanswered, |_, op| matches!(op, Op::Claim(_)));
        fixture.advance(4 * SECOND);
        host.wire.judge(|_, _| Fate::Refused);
        fixture.advance(10 * SECOND);
        host.wire.calm();
        // Queries with and without the lock have the same result.
        fixture.advance(10 * SECOND);
        assert_eq!((fixture.log.ticks(), jobs.status("j").counts.missed), (vec![], 1));
        fixture.advance(80 * SECOND);
        assert_eq!(fixture.log.ticks(), [200_000]);
    });
}

#[test]
fn jobs_have_separate_claims() {
    let fixture = Fixture::new();
    let jobs = |host: &Host| {
        let job = |name, period| host.job(name, Schedule::every(period * SECOND), Duration::ZERO);
        host.start([job("j", 10), job("k", 60)])
    };
    let (a, b) = (fixture.host("a"), fixture.host("b"));
    let _a = jobs(&a);
    fixture.advance(85 * SECOND);
    let at_b = jobs(&b);
    fixture.clock.settle();
    assert_eq!((fleet_tick(&at_b, "j"), fleet_tick(&at_b, "k")), (80_000, 60_000));
}

#[test]
fn failed_registration_is_retried() {
    let fixture = Fixture::new();
    let job = |host: &Host| {
        host.job("j", Schedule::every(MINUTE), Duration::ZERO)
            .start_within(5 * SECOND)
            .missed(Missed::RunAll { at_most: 100 })
    };
    let first = fixture.host("a");
    let _first = first.start([job(&first)]);
    fixture.clock.settle();
    fixture.nodes.stop(0..3);
    fixture.advance(20 * SECOND);
    fixture.nodes.start(0..3);
    fixture.advance(20 * SECOND);
    first.crash();
    fixture.advance(3 * MINUTE);
    let second = fixture.host("b");
    let _second = second.start([job(&second)]);
    fixture.advance(SECOND);
    assert_eq!(fixture.log.ticks(), [60_000, 120_000, 180_000]);
}

#[test]
fn late_registration_keeps_newer_claims() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let job = |host: &Host| {
        host.job("j", Schedule::every(100 * SECOND), Duration::ZERO).missed(Missed::RunLatest)
    };
    b.wire.apply(Fate::Refused, |_, op| matches!(op, Op::Acquire(_)));
    let at_b = b.start([job(&b)]);
    // The job is still registered while paused.
    at_b.handle.pause_here("j").unwrap();
    fixture.advance(SECOND);
    let _a = a.start([job(&a)]);
    fixture.advance(100 * SECOND);
    assert_eq!(fixture.log.hosts(), ["a"]);
    b.wire.calm();
    b.wire.sent();
    fixture.advance(20 * SECOND);
    let sent = b.wire.sent_by_kind();
    assert!(sent.contains_key("prepare") && !sent.contains_key("claim"), "{sent:?}");
    assert_eq!(fleet_tick(&at_b, "j"), 100_000);
}

#[test]
fn delayed_remote_tick_sends_two_events() {
    let (fixture, [a, b, other]) = Fixture::hosts(["a", "b", "other"]);
    let start = |host: &Host| host.start([host.job("j", Schedule::every(100 * SECOND), MS)]);
    let mut jobs = [start(&a), start(&b)];
    fixture.advance(99 * SECOND);
    let taken =
        fixture.done(other.redlock.lock(tower_redlock::Resource::of_job("j").unwrap())).unwrap();
    fixture.advance(3 * SECOND);
    drop(taken);
    fixture.advance(20 * SECOND);
    let ran = usize::from(fixture.log.hosts() == ["b"]);
    assert_eq!(jobs[ran].event_names(), ["held", "claimed", "started", "finished"]);
    assert_eq!(jobs[1 - ran].event_names(), ["held", "already started"]);
    assert_eq!(jobs[1 - ran].status("j").counts.skipped, 0, "the tick was run");
}

#[test]
fn lost_lock_repeats_only_at_end() {
    for claim in [Claim::AtStart, Claim::AtEnd] {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let job = host.job("j", Schedule::every(3600 * SECOND), 30 * SECOND).claim(claim);
        let jobs = host.start([job]);
        fixture.advance(3_600 * SECOND);
        // Only renewals are refused: an end could be stored.
        host.wire.apply(Fate::Refused, |_, op| matches!(op, Op::Extend(_)));
        fixture.advance(10 * SECOND);
        assert_eq!(jobs.status("j").counts.lost, 1);
        host.wire.calm();
        fixture.advance(60 * SECOND);
        let attempts = fixture.log.attempts();
        let expected: &[_] = if claim == Claim::AtEnd { &[1, 2] } else { &[1] };
        assert_eq!(attempts, expected);
    }
}

#[test]
fn manager_shutdown_ends_its_jobs() {
    with_timeout(20 * SECOND, || {
        let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
        let job = |host: &Host| host.job("j", Schedule::every(10 * SECOND), 2 * SECOND);
        let running = a.start([job(&a)]);
        fixture.clock.settle();
        fixture.nodes.stop(0..5);
        // It never reached the nodes.
        let waiting = b.start([job(&b)]);
        fixture.advance(MS);
        for (host, jobs) in [(&a, &running), (&b, &waiting)] {
            let redlock = host.redlock.clone();
            let _down = fixture.clock.spawn(async move { redlock.shutdown().await });
            fixture.advance(30 * SECOND);
            host.wire.sent();
            fixture.advance(100 * SECOND);
            assert_eq!(host.wire.sent(), 0);
            let mut report = fixture.shutdown(jobs, MINUTE);
            fixture.clock.settle();
            assert!(report.take().is_some(), "the shutdown returns at once");
        }
    });
}

#[test]
fn silent_minority_delays_no_start() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let _jobs = host.start([host.job("j", Schedule::every(10 * SECOND), Duration::ZERO)]);
    fixture.clock.settle();
    fixture.nodes.freeze([1, 3]);
    // Two node timeouts, as for grants.
    host.wire.judge(|_, op| match op {
        Op::Prepare(PrepareOp { max_delay, .. }) | Op::Claim(ClaimOp { max_delay, .. })
            if *max_delay != 100 * MS =>
        {
            Fate::Refused
        }
        _ => Fate::Passes,
    });
    fixture.advance(10 * SECOND);
    assert_eq!(fixture.log.ticks(), [10_000], "at once");
}

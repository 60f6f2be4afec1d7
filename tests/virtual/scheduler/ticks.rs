//! Each tick starts once.

use std::{collections::HashSet, time::Duration};

use tower_redlock::{
    Schedule,
    node::{ClaimOp, Op},
    scheduler::Missed,
    time::Clock,
};

use crate::scheduler::{
    fixture::{Fixture, Host, MS, RunningScheduler, SECOND},
    wire::Fate,
};

/// Checks that every tick of a second within `ticks` ran once, and that no two runs overlapped.
fn assert_once(fixture: &Fixture, ticks: std::ops::RangeInclusive<u64>) {
    let mut ran = fixture.log.ticks();
    let in_order = ran.is_sorted();
    ran.retain(|tick| ticks.contains(&(tick / 1_000)));
    let expected: Vec<u64> = ticks.map(|tick| tick * 1_000).collect();
    assert_eq!(ran, expected);
    assert!(in_order);
    let runs = fixture.log.entries();
    assert!(runs.windows(2).all(|pair| pair[0].token < pair[1].token));
    let unique: HashSet<_> = runs.iter().map(|run| run.tick).collect();
    assert_eq!(unique.len(), runs.len());
}

fn start(host: &Host, takes: Duration) -> RunningScheduler {
    host.start([host.job("j", Schedule::every(SECOND), takes)])
}

#[test]
fn clocks_apart_start_no_tick_twice() {
    for takes in [0, 10, 300] {
        let fixture = Fixture::new();
        let hosts = [
            fixture.host("on time"),
            fixture.host_at("ahead", fixture.clock.ahead_by(250 * MS)),
            fixture.host_at("behind", fixture.clock.behind_by(249 * MS)),
        ];
        let jobs = hosts.each_ref().map(|host| start(host, takes * MS));
        fixture.advance(100 * SECOND);
        assert_once(&fixture, 1..=99);
        // The replica whose clock is ahead is the first while it runs, except at the first moment's
        // tick, which only the replica behind has not passed.
        let mut runs = fixture.log.entries();
        runs.retain(|run| crate::scheduler::fixture::after_start(run.tick) > 0);
        assert!(runs.iter().all(|run| run.host == "ahead"));
        // Between two runs: a lock left behind would cost the ticks of a TTL.
        fixture.advance(300 * MS);
        hosts[1].crash();
        fixture.advance(100 * SECOND);
        assert_once(&fixture, 1..=199);
        assert!(fixture.log.hosts().iter().filter(|host| **host == "on time").count() >= 90);
        drop(jobs);
    }
}

#[test]
fn restarting_nodes_lose_no_tick() {
    let fixture = Fixture::new();
    let hosts = [fixture.host("a"), fixture.host_at("b", fixture.clock.ahead_by(20 * MS))];
    let _jobs = hosts.each_ref().map(|host| start(host, 50 * MS));
    for round in 0..50 {
        let (first, second) = (round % 5, (round + 2) % 5);
        fixture.nodes.stop([first, second]);
        fixture.advance(1_300 * MS);
        fixture.nodes.start([first, second]);
        // The other nodes keep what a minority forgets.
        fixture.nodes.forget_unguarded([first]);
        fixture.advance(700 * MS);
    }
    assert_once(&fixture, 1..=99);
}

#[test]
fn split_vote_burns_no_tick() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let _jobs = [&a, &b].map(|host| start(host, 10 * MS));
    // Each replica gets two nodes of five; the fifth refuses at first.
    let split = |mine: [usize; 2]| {
        let mut left = 3;
        move |node: usize, op: &Op| match op {
            Op::Acquire(_) if node == 0 => {
                left -= 1;
                if left < 0 { Fate::Passes } else { Fate::Refused }
            }
            Op::Acquire(_) if left >= 0 && !mine.contains(&node) => Fate::Refused,
            _ => Fate::Passes,
        }
    };
    a.wire.judge(split([1, 2]));
    b.wire.judge(split([3, 4]));
    fixture.advance(10 * SECOND + 100 * MS);
    assert_once(&fixture, 1..=10);
}

/// Each replica has its own votes before the requests of the others arrive.
#[test]
fn split_vote_costs_few_round_trips() {
    let fixture = Fixture::new();
    let far = 20 * MS;
    let hosts = [("a", 0..2), ("b", 2..4), ("c", 4..5)].map(|(name, near)| {
        let host = fixture.host(name);
        host.wire.judge(move |node, _| Fate::Late(if near.contains(&node) { MS } else { far }));
        host
    });
    let _jobs: Vec<_> = hosts
        .iter()
        .map(|host| host.start([host.job("j", Schedule::every(10 * SECOND), 10 * MS)]))
        .collect();

    fixture.advance(300 * SECOND);

    let runs = fixture.log.entries();
    assert!(runs.len() >= 29, "{} runs", runs.len());
    let latest = runs.iter().map(|run| run.lateness).max();
    assert!(latest < Some(SECOND), "{latest:?}");
}

#[test]
fn failed_claim_burns_no_tick() {
    for fate in [Fate::Refused, Fate::Unanswered] {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let mut jobs = start(&host, 10 * MS);
        // In every second attempt, three nodes of five do not answer.
        let mut claims = 0;
        host.wire.judge(move |node, op| match op {
            Op::Claim(ClaimOp { claim, .. })
                if claim.note.is_none() && claim.run.ended.is_none() =>
            {
                claims += 1;
                if node > 1 && ((claims - 1) / 5) % 2 == 0 { fate } else { Fate::Passes }
            }
            _ => Fate::Passes,
        });
        fixture.advance(20 * SECOND + 500 * MS);
        assert_once(&fixture, 1..=20);
        let names = jobs.event_names();
        let count = |name| names.iter().filter(|events| **events == name).count();
        assert_eq!((count("claimed"), count("started")), (20, 20));
        // The first attempt may be the claim that stores the schedule, which is found stored.
        assert!((19..=20).contains(&count("unavailable")), "{names:?}");
        assert_eq!(jobs.status("j").counts.skipped, 0, "all ticks were run");
    }
}

#[test]
fn wall_clock_changes_repeat_no_tick() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = host.job("j", Schedule::every(60 * SECOND), Duration::ZERO).missed(Missed::Skip);
    let _jobs = host.start([job]);
    fixture.advance(180 * SECOND);
    assert_eq!(fixture.log.ticks(), [60_000, 120_000, 180_000]);
    let wall = host.clock.wall();
    host.clock.set_wall(wall.saturating_sub(150 * SECOND));
    // The clock passes the same ticks again.
    fixture.advance(151 * SECOND);
    assert_eq!(fixture.log.ticks(), [60_000, 120_000, 180_000]);
    fixture.advance(60 * SECOND);
    assert_eq!(fixture.log.ticks(), [60_000, 120_000, 180_000, 240_000]);
    // Forward over two ticks: the latest is on time, and is detected within the check interval.
    let forward = host.clock.wall() + 120 * SECOND;
    host.clock.set_wall(forward);
    fixture.advance(SECOND);
    assert_eq!(fixture.log.ticks()[4..], [360_000]);
    for run in fixture.log.entries() {
        assert!(run.began.as_millis() >= u128::from(run.tick.as_millis()), "a run was early");
    }
}

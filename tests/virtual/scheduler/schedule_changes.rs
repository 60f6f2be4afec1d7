//! Jobs whose schedule changes.

use std::{sync::mpsc, time::Duration};

use tower_redlock::{
    Schedule,
    node::{Answer, ClaimsAnswer, Op, Reply, ScheduleMark},
    schedule::WallTime,
    scheduler::Missed,
};

use crate::scheduler::fixture::{Fixture, HOUR, Host, MINUTE, MS, SECOND};

const ALL: Missed = Missed::RunAll { at_most: 1_000 };

/// The schedule mark of the job on the first node.
fn stored(host: &Host) -> ScheduleMark {
    let (tell, answers) = mpsc::channel();
    let reply = Reply::from_fn(move |said| tell.send(said).unwrap());
    let direct = host.replica.redlock();
    direct.nodes()[0].send(Op::Claims(["j".into()].into()), reply);
    let Ok(Answer::Claims(ClaimsAnswer { mut claims, .. })) = answers.recv().unwrap() else {
        panic!()
    };
    claims.remove(0).and_then(|claim| claim.schedule).expect("the claim has a schedule")
}

/// The minutes of the ticks that run in the hour after a change 10 h after the start.
fn after_change(old: &Schedule, new: &Schedule, missed: Missed) -> Vec<i64> {
    let (fixture, [a, b, c]) = Fixture::hosts(["a", "b", "c"]);
    let job = |host: &Host, schedule: &Schedule| host.job("j", schedule.clone(), MS).missed(missed);
    let _a = a.start([job(&a, old)]);
    fixture.advance(10 * HOUR + SECOND);
    a.crash();
    let before = fixture.log.entries().len();
    let _b = b.start([job(&b, new)]);
    fixture.advance(31 * MINUTE);
    // A restart has no effect.
    b.crash();
    let _c = c.start([job(&c, new)]);
    fixture.advance(29 * MINUTE);
    let minutes = |tick: &u64| i64::try_from(tick / 60_000).unwrap() - 600;
    fixture.log.ticks()[before..].iter().map(minutes).collect()
}

/// While the former schedule was followed, the new one has missed no tick but the one of the change.
#[test]
fn changed_schedule_counts_from_its_latest_tick() {
    let (daily, five) = (Schedule::every(24 * HOUR), Schedule::every(5 * MINUTE));
    let every_five: Vec<i64> = (0..=12).map(|i| 5 * i).collect();
    for missed in [Missed::Skip, Missed::RunLatest, ALL] {
        assert_eq!(after_change(&daily, &five, missed), every_five, "{missed:?}");
    }
    // The former schedule has run at eight.
    let (three, four) = (Schedule::every(3 * HOUR), Schedule::every(4 * HOUR));
    assert_eq!(after_change(&four, &three, Missed::RunLatest), [-60]);
    assert_eq!(after_change(&three, &four, Missed::RunLatest), [0_i64; 0]);
}

#[test]
fn two_schedules_keep_their_first_starts() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let job = |host: &Host, minutes: u32| {
        host.job("j", Schedule::every(minutes * MINUTE), MS).missed(Missed::RunLatest)
    };
    let _a = a.start([job(&a, 7)]);
    fixture.advance(30 * MINUTE);
    let _b = b.start([job(&b, 5)]);
    fixture.advance(10 * SECOND);
    let changed = stored(&a);
    assert_eq!(&*changed.owner, "b");
    let mut sinces: Vec<Duration> = Vec::new();
    for _ in 0..60 {
        fixture.advance(MINUTE);
        sinces.push(stored(&a).since);
    }
    sinces.sort_unstable();
    sinces.dedup();
    assert_eq!(sinces.len(), 2, "one for each schedule");
    assert!(sinces.contains(&changed.since));
    // Both replicas run ticks above the latest one.
    let hosts = fixture.log.hosts();
    assert!(hosts.contains(&"a") && hosts.contains(&"b"));
}

#[test]
fn new_servers_start_a_delay_immediately() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let now = tower_redlock::time::Clock::wall(&fixture.clock);
    // Their floor is 60 s after the time at which they were new.
    let floor = u64::try_from((now + 60 * SECOND).as_micros()).unwrap();
    host.wire.judge(move |_, _| crate::scheduler::wire::Fate::Floor(floor));
    fixture.advance(20 * SECOND);
    let _jobs = host.start([host.job("j", Schedule::every_after(24 * HOUR), MS)]);
    fixture.advance(SECOND);
    assert_eq!(fixture.log.ticks(), [20_000]);
    fixture.advance(24 * HOUR);
    assert_eq!(fixture.log.entries().len(), 2);
}

#[test]
fn custom_rules_differ_by_name() {
    let rule = |hours: u32, name| {
        Schedule::custom(name, move |after: WallTime| {
            Schedule::every(hours * HOUR).next(after, None)
        })
    };
    let ran = after_change(&rule(3, "x"), &rule(2, "y"), Missed::Skip);
    assert_eq!(ran, [0], "it counts from the tick of nine");
    // Rules with the same name count as the same.
    assert_eq!(after_change(&rule(4, "x"), &rule(3, "x"), Missed::RunLatest), [-60]);
}

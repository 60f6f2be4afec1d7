//! Runs that were interrupted, and runs whose end was not stored.

use std::time::Duration;

use tower_redlock::{
    Schedule,
    node::Op,
    scheduler::{Claim, JobEventKind},
};

use crate::scheduler::{
    fixture::{Fixture, HOUR, Host, MS, RunningScheduler, SECOND, TTL, event_name},
    wire::Fate,
};

/// A period that is longer than any time for which a test keeps the nodes away.
const PERIOD: Duration = Duration::from_secs(6 * 3_600);

fn missed(jobs: &RunningScheduler) -> u64 {
    jobs.status("j").counts.missed
}

#[test]
fn trigger_counts_the_crashed_tick_once() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let job = |host: &Host| host.job("j", Schedule::every(HOUR), 100 * SECOND);
    let (_a, at_b) = (a.start([job(&a)]), b.start([job(&b)]));
    at_b.handle.pause_here("j").unwrap();
    fixture.advance(HOUR + SECOND);
    a.crash();
    fixture.advance(2 * TTL);
    at_b.handle.trigger_here("j").unwrap();
    fixture.advance(SECOND);
    assert_eq!((fixture.log.hosts(), missed(&at_b)), (vec!["a", "b"], 1));
    at_b.handle.resume_here("j").unwrap();
    fixture.advance(HOUR);
    assert_eq!(missed(&at_b), 1);
}

#[test]
fn max_attempts_gives_the_tick_up() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = host.job("j", Schedule::every(HOUR), 30 * SECOND);
    let mut jobs = host.start([job.claim(Claim::AtEnd).max_attempts(3)]);
    fixture.advance(3_599 * SECOND);
    host.wire.apply(Fate::Refused, |_, op| matches!(op, Op::Extend(_)));
    fixture.advance(HOUR / 2);
    let attempts = fixture.log.attempts();
    assert_eq!(attempts, [1, 2, 3]);
    let events = jobs.new_events();
    let given_up: Vec<_> =
        events.iter().filter(|event| event_name(&event.kind) == "given up").collect();
    assert_eq!(given_up.len(), 1);
    assert_eq!(given_up[0].kind, JobEventKind::GivenUp { attempts: 3 });
    assert_eq!(missed(&jobs), 1);
    assert_eq!(&*jobs.status("j").last_missed.unwrap().why, "given up after 3 attempts");
    host.wire.calm();
    fixture.advance(HOUR);
    let runs = fixture.log.entries();
    assert_eq!((runs.len(), runs[3].attempt, runs[3].finished), (4, 1, true));
    assert_eq!(missed(&jobs), 1);
}

#[test]
fn crash_during_partition_is_repeated_later() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let job = |host: &Host| host.job("j", Schedule::every(PERIOD), 30 * SECOND).claim(Claim::AtEnd);
    let (_a, _b) = (a.start([job(&a)]), b.start([job(&b)]));
    fixture.advance(10 * SECOND);
    b.replica.partition(0..5);
    fixture.advance(PERIOD.saturating_sub(9 * SECOND));
    a.crash();
    // The tick is no longer on time.
    fixture.advance(HOUR);
    b.replica.heal(0..5);
    fixture.advance(6 * SECOND);
    let runs: Vec<_> = std::iter::zip(fixture.log.hosts(), fixture.log.attempts()).collect();
    assert_eq!(runs, [("a", 1), ("b", 2)]);
}

/// Two nodes of five store the end of the run; the others keep it as open.
fn end_on_two_nodes(fixture: &Fixture, a: &Host) -> RunningScheduler {
    let at_a = a.start([a.job("j", Schedule::every(PERIOD), SECOND).claim(Claim::AtEnd)]);
    fixture.advance(PERIOD);
    a.replica.partition(2..5);
    fixture.advance(SECOND);
    assert_eq!(at_a.status("j").counts.finished, 1);
    a.crash();
    at_a
}

#[test]
fn minority_end_prevents_a_repetition() {
    let (fixture, [a, b, c]) = Fixture::hosts(["a", "b", "c"]);
    let _a = end_on_two_nodes(&fixture, &a);
    // The run counts as running until its lock ends.
    let job = |host: &Host| host.job("j", Schedule::every(PERIOD), SECOND).claim(Claim::AtEnd);
    b.replica.partition(0..2);
    let _b = b.start([job(&b)]);
    fixture.advance(SECOND);
    b.replica.heal(0..2);
    b.replica.partition(3..5);
    fixture.advance(2 * TTL);
    b.replica.partition(0..2);
    // A replica without this knowledge finds the same.
    c.replica.partition(0..2);
    b.replica.heal(3..5);
    let _c = c.start([job(&c)]);
    fixture.advance(HOUR);
    assert_eq!(fixture.log.hosts(), ["a"]);
}

#[test]
fn minority_end_is_stored_by_reader() {
    let (fixture, [a, b, c]) = Fixture::hosts(["a", "b", "c"]);
    let _a = end_on_two_nodes(&fixture, &a);
    let job = |host: &Host| host.job("j", Schedule::every(PERIOD), SECOND).claim(Claim::AtEnd);
    b.replica.partition(3..5);
    let _b = b.start([job(&b)]);
    fixture.advance(2 * TTL);
    c.replica.partition(0..2);
    let _c = c.start([job(&c)]);
    fixture.advance(HOUR);
    assert_eq!(fixture.log.hosts(), ["a"]);
}

#[test]
fn late_end_keeps_a_later_claim() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let job = |host: &Host| host.job("j", Schedule::every(PERIOD), SECOND).claim(Claim::AtEnd);
    let at_a = a.start([job(&a)]);
    fixture.advance(PERIOD);
    a.replica.partition(0..5);
    fixture.advance(HOUR);
    let at_b = b.start([job(&b)]);
    fixture.advance(SECOND / 2);
    // The other replica is repeating it.
    a.replica.heal(0..5);
    fixture.advance(6 * SECOND);
    for jobs in [&at_a, &at_b] {
        let fleet = jobs.status("j").fleet.unwrap();
        assert_eq!(fleet.owner.as_deref(), Some("b"));
    }
    let runs: Vec<_> = std::iter::zip(fixture.log.hosts(), fixture.log.attempts()).collect();
    assert_eq!(runs, [("a", 1), ("b", 2)]);
}

#[test]
fn catch_up_window_gives_run_up() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let job = |host: &Host| {
        let job = host.job("j", Schedule::every(8 * HOUR), 100 * SECOND);
        job.claim(Claim::AtEnd).catch_up(HOUR)
    };
    let _a = a.start([job(&a)]);
    fixture.advance(8 * HOUR + SECOND);
    a.crash();
    fixture.advance(3 * HOUR);
    let mut at_b = b.start([job(&b)]);
    fixture.advance(HOUR);
    assert_eq!(fixture.log.hosts(), ["a"]);
    assert_eq!((at_b.event_names(), missed(&at_b)), (vec!["given up"], 1));
    fixture.advance(5 * HOUR);
    assert_eq!((fixture.log.hosts(), missed(&at_b)), (vec!["a", "b"], 1));
}

/// After an outage, and after half a minute in which the nodes answer queries and refuse claims.
#[test]
fn unstored_end_is_stored_later() {
    let cases = [Claim::AtStart, Claim::AtEnd];
    for (claim, refuses) in cases.into_iter().flat_map(|claim| [(claim, false), (claim, true)]) {
        let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
        let job = |host: &Host| host.job("j", Schedule::every(PERIOD), SECOND).claim(claim);
        let at_a = a.start([job(&a)]);
        fixture.advance(PERIOD);
        fixture.nodes.stop(0..5);
        fixture.advance(HOUR);
        assert_eq!(at_a.status("j").counts.finished, 1);
        if refuses {
            a.wire.apply(Fate::Refused, |_, op| matches!(op, Op::Claim(_)));
        }
        fixture.nodes.start(0..5);
        fixture.advance(if refuses { 30 * SECOND } else { 6 * SECOND });
        if refuses {
            a.wire.calm();
            fixture.advance(HOUR);
        }
        // A new replica does not take the run for interrupted.
        let at_b = b.start([job(&b)]);
        fixture.advance(PERIOD);
        let attempts = fixture.log.attempts();
        let missed = (missed(&at_a), missed(&at_b));
        assert_eq!((attempts, missed), (vec![1, 1], (0, 0)), "{claim:?}, refused: {refuses}");
    }
}

#[test]
fn seen_end_outlasts_its_nodes() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let _a = end_on_two_nodes(&fixture, &a);
    let job = |host: &Host| host.job("j", Schedule::every(PERIOD), SECOND).claim(Claim::AtEnd);
    b.replica.partition(3..5);
    let at_b = b.start([job(&b)]);
    fixture.advance(100 * MS);
    assert!(at_b.status("j").fleet.unwrap().ended.is_some());
    b.replica.heal(3..5);
    b.replica.partition(0..2);
    fixture.advance(HOUR);
    assert_eq!(fixture.log.hosts(), ["a"]);
}

#[test]
fn end_of_remote_run_is_seen() {
    let (fixture, hosts) = Fixture::hosts(["a", "b"]);
    let jobs = hosts
        .each_ref()
        .map(|host| host.start([host.job("j", Schedule::every(PERIOD), 100 * SECOND)]));
    fixture.advance(PERIOD + SECOND);
    let idle = usize::from(fixture.log.hosts() == ["a"]);
    assert_eq!(jobs[idle].status("j").fleet.unwrap().ended, None);
    fixture.advance(300 * SECOND);
    let fleet = jobs[idle].status("j").fleet.unwrap();
    assert!(fleet.ended.is_some() && fleet.owner.as_deref() == Some(fixture.log.hosts()[0]));
    // No further query follows.
    hosts[idle].wire.sent();
    fixture.advance(PERIOD / 2);
    assert_eq!(hosts[idle].wire.sent(), 0);
}

#[test]
fn unended_run_is_read_less_often() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let job = |host: &Host| host.job("j", Schedule::every(PERIOD), 100 * SECOND);
    let _a = a.start([job(&a)]);
    fixture.advance(PERIOD);
    let _b = b.start([job(&b)]);
    fixture.advance(SECOND);
    a.crash();
    fixture.advance(TTL);
    b.wire.sent();
    fixture.advance(PERIOD / 2);
    let sent = b.wire.sent();
    // At most one query in ten minutes, to five nodes.
    assert!((5..=5 * 80).contains(&sent), "{sent}");
}

#[test]
fn remote_ticks_are_not_skipped() {
    let (fixture, hosts) = Fixture::hosts(["a", "b", "c"]);
    let jobs = hosts
        .each_ref()
        .map(|host| host.start([host.job("j", Schedule::every(100 * SECOND), 20 * SECOND)]));
    fixture.advance(3 * HOUR);
    assert_eq!(fixture.log.entries().len(), 108);
    assert_eq!(jobs.map(|jobs| jobs.status("j").counts.skipped), [0; 3]);
}

#[test]
fn partly_withdrawn_claim_burns_no_tick() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let job = |host: &Host| host.job("j", Schedule::every(100 * SECOND), Duration::ZERO);
    let at_a = a.start([job(&a)]);
    fixture.advance(99 * SECOND);
    let nodes = fixture.nodes.clone();
    a.wire.judge(move |_, op| {
        if matches!(op, Op::Claim(_)) {
            nodes.freeze(0..5);
        }
        Fate::Passes
    });
    fixture.advance(SECOND + 2 * MS);
    at_a.handle.pause_here("j").unwrap();
    a.wire.apply(Fate::Refused, |node, op| matches!(op, Op::Claim(_) if node < 2));
    fixture.nodes.thaw(0..5);
    fixture.advance(100 * MS);
    assert_eq!(fixture.log.ticks(), [0_u64; 0], "the claim was withdrawn");
    let _b = b.start([job(&b)]);
    fixture.advance(SECOND);
    assert_eq!((fixture.log.ticks(), fixture.log.hosts()), (vec![100_000], vec!["b"]));
}

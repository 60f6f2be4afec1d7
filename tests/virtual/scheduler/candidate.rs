//! The candidate of a scheduler: its options, and a runtime that hangs.

use std::time::Duration;

use tower_redlock::{Job, Leader, Schedule, Scheduler, scheduler::StartError};

use crate::scheduler::fixture::{Fixture, Host, MS, SECOND, TTL};

/// The stall limit of half a minute, detected up to a quarter later.
const DETECTION_TIME: Duration = Duration::from_millis(37_500);
/// Time without a reading of the wall clock until the timer task counts as hung.
const READING_TIMEOUT: Duration = Duration::from_secs(16);

fn job(host: &Host) -> Job {
    host.job("j", Schedule::every(10 * SECOND), Duration::ZERO)
}

#[test]
fn hung_runtime_loses_leadership() {
    let fixture = Fixture::new();
    let [(a, at_a), (_b, at_b)] = fixture.led(["a", "b"], job);
    fixture.advance(95 * SECOND);
    assert!(at_a.handle.is_active());
    a.hang(|_| true);
    fixture.advance(DETECTION_TIME + TTL + TTL / 10);
    assert!(!at_a.handle.is_active() && at_b.handle.is_active());
    let ran = fixture.log.hosts().len();
    fixture.advance(100 * SECOND);
    assert_eq!(fixture.log.hosts()[ran..], ["b"; 10]);
    // The replica is on standby when it resumes.
    a.unhang();
    fixture.advance(100 * SECOND);
    assert!(!at_a.handle.is_active() && at_b.handle.is_active());
    assert_eq!(fixture.log.hosts()[ran..], ["b"; 20]);
}

/// A task may be stuck behind a blocked worker thread, while the others are polled.
#[test]
fn hung_timer_task_loses_leadership() {
    let fixture = Fixture::new();
    let [(a, at_a), (_b, at_b)] = fixture.led(["a", "b"], job);
    fixture.advance(95 * SECOND);
    a.hang(|number| number == 0);
    fixture.advance(READING_TIMEOUT + DETECTION_TIME + TTL + TTL / 10);
    assert!(!at_a.handle.is_active() && at_b.handle.is_active());
}

#[test]
fn options_are_kept() {
    let (fixture, hosts) = Fixture::hosts(["a", "b"]);
    let [at_a, at_b] = hosts.each_ref().map(|host| {
        let leader = host.redlock.leader("x").ttl(2 * SECOND).heartbeat_within(4 * SECOND);
        let jobs = host.start_led_by(leader, [job(host)]);
        fixture.clock.settle();
        jobs
    });
    fixture.advance(5 * SECOND);
    assert!(at_a.handle.is_active());
    hosts[0].hang(|_| true);
    fixture.advance(5 * SECOND + 2_200 * MS);
    assert!(at_b.handle.is_active());
    hosts[1].crash();
    hosts[0].unhang();
    fixture.advance(2_200 * MS);
    assert!(at_a.handle.is_active());
}

#[test]
fn stopped_candidate_runs_no_jobs() {
    let fixture = Fixture::new();
    let [a, b] = ["a", "b"].map(|name| fixture.host(name));
    let leader = a.redlock.leader("x").resign_grace(Duration::ZERO);
    let at_a = a.start_led_by(leader.clone(), [job(&a)]);
    fixture.clock.settle();
    let at_b = b.start_led([job(&b)]);
    fixture.advance(15 * SECOND);
    let stopped = fixture.clock.spawn(async move { leader.stop().await });
    fixture.advance(20 * MS);
    assert!(stopped.is_finished());
    assert!(!at_a.handle.is_active() && at_b.handle.is_active());
    fixture.advance(100 * SECOND);
    assert!(!at_a.handle.is_active() && at_a.status("j").next_tick.is_none());
    assert!(fixture.log.hosts()[1..].iter().all(|host| *host == "b"));
}

#[test]
fn invalid_candidate_is_refused() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let refused = |leader: Leader| {
        let scheduler = Scheduler::new(a.redlock.clone()).leader_only(leader);
        scheduler.spawner(fixture.clock.spawner()).start().unwrap_err()
    };
    let foreign = refused(b.redlock.leader("x"));
    assert_eq!(foreign, StartError::ForeignLeader { name: "x".into() });
    let ttl = refused(a.redlock.leader("x").ttl(Duration::ZERO));
    assert_eq!(ttl.to_string(), r#"the leader "x": the TTL is zero"#);
    let name = refused(a.redlock.leader("x".repeat(600)));
    assert!(matches!(name, StartError::InvalidLeader { .. }), "{name}");
    let unnamed = refused(a.redlock.leader(""));
    assert!(matches!(unnamed, StartError::InvalidLeader { .. }), "{unnamed}");
    fixture.advance(TTL);
    assert_eq!(fixture.nodes.key_counts(), [0; 5]);
}

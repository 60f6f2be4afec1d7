//! Ticks in the probation of servers that lost their claims: they do not run, and are reported.

use std::time::Duration;

use tower_redlock::{Schedule, scheduler::MissReason};

use crate::scheduler::fixture::{Fixture, Host, SECOND, TTL};

#[test]
fn ticks_of_the_probation_are_reported() {
    let fixture = Fixture::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| fixture.host(name));
    let job = |host: &Host| host.job("j", Schedule::every(SECOND), Duration::ZERO);
    let (_a, mut at_b) = (a.start([job(&a)]), b.start([job(&b)]));
    fixture.advance(25_500 * crate::scheduler::fixture::MS);
    a.crash();
    b.replica.partition(0..5);
    fixture.nodes.forget(0..5);
    fixture.advance(30 * SECOND);
    let mut at_c = c.start([job(&c)]);
    fixture.advance(10 * SECOND);
    b.replica.heal(0..5);
    fixture.advance(30 * SECOND);

    let ran = fixture.log.ticks();
    let reported = at_b.missed();

    // It reads them after another replica has claimed a later tick.
    let [(count, first, why)] = &reported[..] else { panic!("{reported:?}") };
    assert_eq!((*count, why), (TTL.as_secs(), &MissReason::Forgotten));
    let lost: Vec<_> = (0..*count).map(|nth| first + nth * 1_000).collect();
    assert!(lost.iter().all(|tick| !ran.contains(tick)), "{lost:?} of {ran:?}");
    assert_eq!(at_c.missed(), [], "it began later");
}

#[test]
fn standby_reports_no_run_of_the_leader() {
    let fixture = Fixture::new();
    let job = |host: &Host| host.job("j", Schedule::every(10 * SECOND), Duration::ZERO);
    let [(a, at_a), (_b, mut at_b)] = fixture.led(["a", "b"], job);
    fixture.advance(995 * SECOND);
    assert!(at_a.handle.is_active());
    assert_eq!(fixture.log.hosts(), ["a"; 99]);
    a.crash();
    fixture.nodes.forget(0..5);
    fixture.advance(70 * TTL);
    assert!(at_b.handle.is_active());
    let (ran, reported) = (fixture.log.ticks(), at_b.missed());
    assert!(
        reported.iter().all(|(count, first, _)| *count == 1 && !ran.contains(first)),
        "{reported:?} {:?}",
        &ran[97..]
    );
}

#[test]
fn second_read_reports_no_earlier_run() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let job = |host: &Host| {
        host.job("j", Schedule::every(1_000 * SECOND), Duration::ZERO).start_within(50 * SECOND)
    };
    let (_a, mut at_b) = (a.start([job(&a)]), b.start([job(&b)]));
    fixture.advance(3_010 * SECOND);
    a.crash();
    fixture.advance(30 * SECOND);
    fixture.nodes.forget(0..5);
    fixture.advance(60 * SECOND);
    for _ in 0..2 {
        at_b.handle.trigger_here("j").unwrap();
        fixture.advance(10 * SECOND);

        assert_eq!(at_b.missed(), [], "no tick was lost");
    }
}

#[test]
fn wrong_clock_is_no_loss_of_data() {
    let fixture = Fixture::new();
    let fast = fixture.clock.ahead_by(Duration::from_secs(7_200));
    let (a, b) = (fixture.host_at("a", fast), fixture.host("b"));
    let job = |host: &Host| host.job("j", Schedule::every(10 * SECOND), Duration::ZERO);
    let mut at_b = b.start([job(&b)]);
    at_b.handle.pause_here("j").unwrap();
    fixture.advance(SECOND);
    let _at_a = a.start([job(&a)]);
    fixture.advance(34 * SECOND);
    at_b.handle.resume_here("j").unwrap();
    fixture.advance(2 * SECOND);

    let reported = at_b.missed();

    assert!(reported.iter().all(|(_, _, why)| *why != MissReason::Forgotten), "{reported:?}");
}

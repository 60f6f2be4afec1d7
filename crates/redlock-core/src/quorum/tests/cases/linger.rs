//! A lease that its process keeps after a release.

use std::time::Duration;

use super::fixture::{Fixture, PROPOSAL, at, extended, held, params};
use crate::quorum::{Action, Event, Halt, HandOff, LeaseCommand, LeaseParams, NextHolder};

const SECOND: Duration = Duration::from_secs(1);

fn next() -> NextHolder {
    NextHolder { max_hold: SECOND * 3_600, auto_extend: true }
}

impl Fixture {
    fn linger(&mut self, until: u64) -> bool {
        self.lease.linger(at(until), self.now)
    }
}

fn releases(actions: &[Action]) -> usize {
    let is =
        |action: &&Action| matches!(action, Action::Send { command: LeaseCommand::Release, .. });
    actions.iter().filter(is).count()
}

#[test]
fn next_holder_takes_over_its_end() {
    let mut fixture = Fixture::held();
    assert!(fixture.at(1_000).linger(2_000));
    assert_eq!(fixture.lease.next_wake(), Some(at(2_000)), "no renewal is due before");
    let hand_off = fixture.at(1_500).lease.hand_on(next(), at(1_500));
    assert_eq!(hand_off, Some(HandOff { token: PROPOSAL + 1, until: at(9_000) }));
    assert!(!fixture.lease.is_lingering());
    assert_eq!(fixture.lease.next_wake(), Some(at(3_000)), "renewed as before");
}

#[test]
fn end_releases_without_a_loss() {
    let mut fixture = Fixture::held();
    assert!(fixture.at(1_000).linger(2_000));
    assert_eq!(fixture.at(1_999).wake(), []);
    let out = fixture.at(2_000).wake();
    assert_eq!((releases(&out), out.len()), (3, 3), "{out:?}");
    assert_eq!(fixture.lease.hand_on(next(), at(2_000)), None);
}

#[test]
fn half_of_validity_is_the_limit() {
    let mut fixture = Fixture::held();
    assert!(fixture.at(1_000).linger(3_600_000));
    assert_eq!(fixture.lease.next_wake(), Some(at(4_500)));
    assert_eq!(releases(&fixture.at(4_500).wake()), 3);
}

#[test]
fn former_holders_limit_is_over() {
    let mut fixture = Fixture::held_with(LeaseParams { max_hold: SECOND * 2, ..params(3) });
    assert!(fixture.at(1_000).linger(4_000));
    assert!(fixture.at(3_000).lease.hand_on(next(), at(3_000)).is_some());
}

#[test]
fn unsound_lease_is_not_kept() {
    let mut fixture = Fixture::start(3);

    assert!(!fixture.linger(1_000), "not held");
    let mut fixture = Fixture::held();
    fixture.handle(Event::Halt(Halt::Stalled));
    assert!(!fixture.linger(1_000));
    let mut fixture = Fixture::held_with(LeaseParams { block: 1, ..params(3) });
    assert!(!fixture.linger(1_000), "no token is left");
    let mut fixture = Fixture::held();

    assert!(!fixture.at(4_501).linger(5_000), "half of the validity is over");
}

#[test]
fn late_answers_count_for_next_holder() {
    let mut fixture = Fixture::held();
    fixture.at(3_000).wake();
    assert!(fixture.at(3_001).linger(4_000));
    assert_eq!(fixture.extension(0, 3_000, extended()), []);
    assert_eq!(fixture.extension(1, 3_000, extended()), []);
    assert_eq!(fixture.lease.next_wake(), Some(at(4_000)), "it lingers no longer");
    let hand_off = fixture.at(3_500).lease.hand_on(next(), at(3_500));
    assert_eq!(hand_off.map(|hand_off| hand_off.until), Some(at(12_000)));
}

#[test]
fn holders_in_succession_share_a_round() {
    let mut fixture = Fixture::held();
    assert_eq!(fixture.at(3_000).wake().len(), 4, "a round begins");
    for ms in 3_001..3_100 {
        assert!(fixture.at(ms).linger(4_000));
        assert!(fixture.lease.hand_on(next(), at(ms)).is_some());
        assert_eq!(fixture.wake(), []);
    }
}

#[test]
fn stolen_lease_is_released() {
    let mut fixture = Fixture::held();
    fixture.at(3_000).wake();
    assert!(fixture.at(3_001).linger(4_000));
    assert_eq!(fixture.extension(0, 3_000, held("b", Some(1_000))), []);
    let out = fixture.extension(1, 3_000, held("b", Some(1_000)));
    assert_eq!((releases(&out), out.len()), (3, 3), "{out:?}");
}

#[test]
fn release_ends_it_at_once() {
    let mut fixture = Fixture::held();
    assert!(fixture.at(1_000).linger(2_000));
    let out = fixture.handle(Event::Release { awaited: false });
    assert_eq!(releases(&out), 3);
    assert!(!fixture.lease.is_lingering());
}

#[test]
fn holders_events_are_ignored() {
    let mut fixture = Fixture::held();
    assert!(fixture.at(1_000).linger(2_000));
    assert_eq!(fixture.handle(Event::Extend), []);
    assert_eq!(fixture.handle(Event::Halt(Halt::Stalled)), []);
    assert!(fixture.lease.hand_on(next(), at(1_000)).is_some());
}

//! A lease that passes to the next holder of its process.

use std::time::Duration;

use super::fixture::{Fixture, PROPOSAL, at, extended, held, params, renewed, round};
use crate::quorum::{Action, Event, Halt, HandOff, LeaseParams, Loss, NextHolder};

const HOUR: Duration = Duration::from_secs(3_600);

fn next() -> NextHolder {
    NextHolder { max_hold: HOUR, auto_extend: true }
}

impl Fixture {
    fn hand_on(&mut self, next: NextHolder) -> Option<HandOff> {
        self.lease.hand_on(next, self.now)
    }
}

#[test]
fn next_holder_has_next_token() {
    let mut fixture = Fixture::held();
    let hand_off = fixture.at(2_000).hand_on(next());
    assert_eq!(hand_off, Some(HandOff { token: PROPOSAL + 1, until: at(9_000) }));
    let hand_off = fixture.at(2_001).hand_on(next());
    assert_eq!(hand_off, Some(HandOff { token: PROPOSAL + 2, until: at(9_000) }));
}

#[test]
fn last_answer_of_round_disputes_nothing() {
    let mut fixture = Fixture::held();
    fixture.at(3_000).wake();
    fixture.extension(0, 3_000, extended());
    assert_eq!(fixture.extension(1, 3_000, extended()), [renewed(12_000)]);
    assert_eq!(fixture.extension(2, 3_000, extended()), []);
    assert!(fixture.hand_on(next()).is_some());
}

#[test]
fn the_block_is_the_limit() {
    let mut fixture = Fixture::held_with(LeaseParams { block: 2, ..params(3) });
    assert!(fixture.hand_on(next()).is_some());
    assert_eq!(fixture.hand_on(next()), None);
}

#[test]
fn half_of_validity_must_be_left() {
    let mut fixture = Fixture::held();
    assert!(fixture.at(4_500).hand_on(next()).is_some());
    assert_eq!(fixture.at(4_501).hand_on(next()), None);
}

#[test]
fn lease_must_be_held_and_renewed() {
    let mut fixture = Fixture::start(3);

    assert_eq!(fixture.hand_on(next()), None);
    let mut fixture = Fixture::held();
    fixture.handle(Event::Halt(Halt::Stalled));
    assert_eq!(fixture.hand_on(next()), None);
    let mut fixture = Fixture::held();
    fixture.handle(Event::Release { awaited: false });
    assert_eq!(fixture.hand_on(next()), None);
    let mut fixture =
        Fixture::held_with(LeaseParams { max_hold: Duration::from_secs(1), ..params(3) });

    assert_eq!(
        fixture.at(1_000).hand_on(next()),
        None,
        "past the holder's limit, and not told so yet"
    );
}

/// It can be handed on again once a quorum confirms the key.
#[test]
fn disputed_lease_is_not_handed_on() {
    let mut fixture = Fixture::held();

    fixture.at(3_000).wake();
    assert_eq!(fixture.extension(1, 3_000, held("b", Some(1_000))), []);
    assert_eq!(fixture.lease.end(), at(9_000), "the holder's validity stays");
    assert_eq!(fixture.hand_on(next()), None);
    fixture.extension(0, 3_000, extended());

    assert_eq!(fixture.hand_on(next()), None, "one of three");
    assert_eq!(fixture.extension(2, 3_000, extended()), [renewed(12_000)]);
    assert!(fixture.hand_on(next()).is_some());
}

#[test]
fn each_holder_has_its_max_hold() {
    let second = Duration::from_secs(1);
    let mut fixture = Fixture::held_with(LeaseParams { max_hold: second, ..params(3) });
    assert_eq!(fixture.lease.end(), at(1_000));
    let hand_off = fixture.at(900).hand_on(NextHolder { max_hold: second * 3, auto_extend: true });
    assert_eq!(hand_off.map(|hand_off| hand_off.until), Some(at(3_900)));
    assert_eq!(fixture.at(3_000).wake(), [], "it ends before a renewal would help");
    assert_eq!(fixture.at(3_900).wake(), [Action::Lost(Loss::MaxHold)]);
}

#[test]
fn round_under_way_counts_for_next() {
    let mut fixture = Fixture::held();
    assert_eq!(fixture.at(3_000).wake(), round(3, 3_000, 9_000));
    assert!(fixture.at(3_001).hand_on(next()).is_some());
    assert_eq!(fixture.wake(), []);
    fixture.extension(0, 3_000, extended());
    assert_eq!(fixture.extension(1, 3_000, extended()), [renewed(12_000)]);
}

#[test]
fn next_holder_decides_on_renewal() {
    let mut fixture = Fixture::held_with(LeaseParams { auto_extend: false, ..params(3) });
    assert_eq!(fixture.at(3_500).wake(), []);
    assert!(fixture.hand_on(next()).is_some());
    assert_eq!(fixture.wake(), round(3, 3_500, 9_000), "overdue");
    assert!(fixture.hand_on(NextHolder { auto_extend: false, ..next() }).is_some());
    assert_eq!(fixture.at(4_000).wake(), []);
}

#[test]
fn former_extension_is_not_reported() {
    let mut fixture = Fixture::held();
    fixture.at(100).extend();
    assert!(fixture.hand_on(next()).is_some());
    fixture.extension(0, 100, extended());
    assert_eq!(fixture.extension(1, 100, extended()), [renewed(9_100)]);
    assert_eq!(fixture.at(150).wake(), []);
}

#[test]
fn without_fencing_no_block_limits() {
    let mut fixture = Fixture::held_with(LeaseParams { proposal: None, block: 1, ..params(3) });
    for _ in 0..1_000 {
        assert_eq!(fixture.hand_on(next()).map(|hand_off| hand_off.token), Some(0));
    }
}

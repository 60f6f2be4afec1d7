//! R10: nodes whose clocks jumped.

use std::time::Duration;

use super::fixture::{Fixture, at, extended, granted, held, not_counted, releases, renewed, round};
use crate::{
    protocol::OpId,
    quorum::{Action, Event, Loss, Refusal},
    vote::{Reason, VoteOutcome},
};

const JUMP_MICROS: i64 = 300_000_000;
const MAX_JUMP: Duration = Duration::from_secs(300);

fn jumped() -> VoteOutcome {
    not_counted(Reason::ClockJumped { by_micros: JUMP_MICROS })
}

impl Fixture {
    /// Reports a jump of the node's clock that was detected at `ms`.
    fn unsound(&mut self, node: usize, ms: u64) -> Vec<Action> {
        self.handle(Event::Unsound {
            node,
            seen: at(ms),
            by_micros: JUMP_MICROS,
            at_most: MAX_JUMP,
        })
    }

    /// Reports a jump of `size` ms.
    fn jump(&mut self, node: usize, ms: u64, size: u64) -> Vec<Action> {
        let at_most = Duration::from_millis(size);
        self.handle(Event::Unsound { node, seen: at(ms), by_micros: JUMP_MICROS, at_most })
    }
}

#[test]
fn jump_voids_earlier_grant() {
    let mut fixture = Fixture::start(3);
    fixture.at(1).vote(0, granted());
    assert_eq!(fixture.at(2).unsound(0, 2), []);
    assert_eq!(fixture.at(3).vote(1, granted()), [], "one of three");
    let acquired = Action::Acquired { token: super::fixture::PROPOSAL, until: at(9_000) };
    assert_eq!(fixture.at(4).vote(2, granted()), [acquired]);
}

#[test]
fn jump_ends_attempt_out_of_reach() {
    let mut fixture = Fixture::start(3);
    fixture.vote(0, granted());
    fixture.vote(1, Err(Reason::Loading));
    let actions = fixture.at(2).unsound(0, 2);
    assert_eq!(actions[..3], releases(3), "its key is given back too");
    let votes = vec![jumped(), not_counted(Reason::Loading), not_counted(Reason::NotAwaited)];
    assert_eq!(actions[3..], [Action::Refused(Refusal::NoQuorum { votes })]);
}

#[test]
fn grant_after_jump_counts() {
    let mut fixture = Fixture::start(1);
    assert_eq!(fixture.at(2).unsound(0, 1), [], "it has not voted");
    let acquired = Action::Acquired { token: super::fixture::PROPOSAL, until: at(9_000) };
    assert_eq!(fixture.vote(0, granted()), [acquired]);
}

#[test]
fn lock_without_sound_quorum_is_lost() {
    let mut fixture = Fixture::held();
    let actions = fixture.at(5).unsound(0, 5);
    let votes = vec![jumped(), VoteOutcome::Granted, not_counted(Reason::NotAwaited)];
    assert_eq!(actions, [Action::Lost(Loss::ClockJumped { votes })]);
    // It is not revived, and is released when the holder drops it.
    assert_eq!(fixture.at(6).vote(2, granted()), []);
    assert_eq!(fixture.wake(), []);
    assert_eq!(fixture.release(false), releases(3));
}

#[test]
fn lock_with_sound_quorum_stays() {
    let mut fixture = Fixture::held();
    fixture.at(3).vote(2, granted());
    assert_eq!(fixture.at(5).unsound(0, 5), []);
    assert_eq!(fixture.lease.end(), at(9_000));
    let Action::Lost(Loss::ClockJumped { .. }) = fixture.at(6).unsound(1, 6)[0] else {
        panic!("one of three is left")
    };
}

#[test]
fn validity_is_that_of_sound_quorum() {
    let mut fixture = Fixture::held();

    fixture.at(10).vote(2, granted());
    fixture.at(3_000).wake();
    fixture.extension(0, 3_000, extended());
    assert_eq!(fixture.extension(1, 3_000, extended()), [renewed(12_000)]);
    // Of the two that are left, one confirmed at the start only.
    assert_eq!(fixture.at(4_000).unsound(0, 4_000), [renewed(9_000)]);
    assert_eq!(fixture.at(8_999).wake()[0], Action::Renewing);
    let lost = fixture.at(9_000).wake();

    assert!(matches!(lost[..], [Action::Lost(Loss::Expired { .. })]), "{lost:?}");
}

#[test]
fn lock_past_sound_validity_is_lost() {
    let mut fixture = Fixture::held();
    fixture.at(10).vote(2, granted());
    fixture.at(3_000).wake();
    fixture.extension(0, 3_000, extended());
    fixture.extension(1, 3_000, extended());
    let actions = fixture.at(9_000).unsound(1, 9_000);
    assert_eq!(actions[0], renewed(9_000));
    assert!(matches!(actions[1..], [Action::Lost(Loss::Expired { .. })]), "{actions:?}");
}

#[test]
fn earlier_end_makes_renewal_due() {
    let mut fixture = Fixture::held();

    fixture.at(10).vote(2, granted());
    fixture.at(3_000).wake();
    fixture.extension(0, 3_000, extended());
    fixture.extension(1, 3_000, extended());
    assert_eq!(fixture.lease.next_wake(), Some(at(6_000)));
    fixture.at(4_000).unsound(0, 4_000);

    assert_eq!(fixture.lease.next_wake(), Some(at(3_000)), "a third of 9 s after 0 s: by now");
    assert_eq!(fixture.wake(), round(3, 4_000, 9_000));
}

#[test]
fn confirmation_after_jump_stands() {
    let mut fixture = Fixture::held();
    fixture.at(3_000).wake();
    fixture.extension(0, 3_000, extended());
    fixture.extension(1, 3_000, extended());
    assert_eq!(fixture.at(3_001).unsound(0, 2_999), [], "told late of an earlier jump");
    assert_eq!(fixture.lease.end(), at(12_000));
}

/// The key still existed after the jump, so the node's confirmation counts again.
#[test]
fn extension_after_jump_counts_again() {
    let mut fixture = Fixture::held();
    fixture.at(10).vote(2, granted());
    assert_eq!(fixture.at(2_000).unsound(0, 2_000), []);
    fixture.at(3_000).wake();
    fixture.extension(0, 3_000, extended());
    assert_eq!(fixture.extension(1, 3_000, extended()), [renewed(12_000)]);
    assert_eq!(fixture.lease.end(), at(12_000));
}

#[test]
fn jumps_add_up_to_slack() {
    let mut fixture = Fixture::held();
    assert_eq!(fixture.at(5).jump(0, 5, 60), []);
    assert_eq!(fixture.at(6).jump(1, 6, 60), []);
    assert_eq!(fixture.at(7).jump(0, 7, 40), [], "100 ms are set aside");
    let lost = fixture.at(8).jump(0, 8, 1);
    assert!(matches!(lost[..], [Action::Lost(Loss::ClockJumped { .. })]), "{lost:?}");
}

#[test]
fn jumps_before_confirmation_are_dropped() {
    let mut fixture = Fixture::held();
    fixture.at(3_000).wake();
    assert_eq!(fixture.at(3_001).jump(0, 3_001, 90), []);
    // Sent before the jump was detected, answered after it.
    fixture.at(3_002).extension(0, 3_000, extended());
    fixture.extension(1, 3_000, extended());
    assert_eq!(fixture.at(3_003).jump(0, 3_003, 90), []);
    assert_eq!(fixture.lease.end(), at(12_000));
}

#[test]
fn jump_of_refusing_node_is_ignored() {
    let mut fixture = Fixture::start(3);
    fixture.vote(2, held("b", Some(10)));
    fixture.vote(0, granted());
    fixture.vote(1, granted());
    assert_eq!(fixture.at(5).unsound(2, 5), []);
    assert_eq!(fixture.lease.end(), at(9_000));
}

#[test]
fn loss_answers_pending_extension() {
    let jump = Event::Unsound { node: 0, seen: at(3), by_micros: JUMP_MICROS, at_most: MAX_JUMP };
    let mut fixture = Fixture::held();
    fixture.at(2).extend();

    let actions = fixture.at(3).handle(jump);

    assert!(matches!(actions[..], [Action::Extended(Err(_)), Action::Lost(_)]), "{actions:?}");
    assert_eq!(fixture.answer(1, OpId::Extend(at(2)), extended()), []);
}

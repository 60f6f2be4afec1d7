//! R10: nodes whose clocks jumped.

use std::time::Duration;

use super::fixture::{Bench, at, extended, granted, held, releases, renewed, round, unheard};
use crate::{
    protocol::OpId,
    quorum::{Action, Event, Loss, Refusal},
    vote::{Reason, VoteOutcome},
};

const BY: i64 = 300_000_000;
const AT_MOST: Duration = Duration::from_secs(300);

fn jumped() -> VoteOutcome {
    unheard(Reason::ClockJumped { by_micros: BY })
}

impl Bench {
    /// Reports a jump of the node's clock that was detected at `ms`.
    fn unsound(&mut self, node: usize, ms: u64) -> Vec<Action> {
        self.handle(Event::Unsound { node, seen: at(ms), by_micros: BY, at_most: AT_MOST })
    }

    /// Reports a jump of `size` ms.
    fn jump(&mut self, node: usize, ms: u64, size: u64) -> Vec<Action> {
        let at_most = Duration::from_millis(size);
        self.handle(Event::Unsound { node, seen: at(ms), by_micros: BY, at_most })
    }
}

#[test]
fn jump_voids_earlier_grant() {
    let mut bench = Bench::start(3);
    bench.at(1).vote(0, granted());
    assert_eq!(bench.at(2).unsound(0, 2), []);
    assert_eq!(bench.at(3).vote(1, granted()), [], "one of three");
    let acquired = Action::Acquired { token: super::fixture::PROPOSAL, until: at(9_000) };
    assert_eq!(bench.at(4).vote(2, granted()), [acquired]);
}

#[test]
fn jump_ends_attempt_out_of_reach() {
    let mut bench = Bench::start(3);
    bench.vote(0, granted());
    bench.vote(1, Err(Reason::Loading));
    let actions = bench.at(2).unsound(0, 2);
    assert_eq!(actions[..3], releases(3), "its key is given back too");
    let votes = vec![jumped(), unheard(Reason::Loading), unheard(Reason::NotAwaited)];
    assert_eq!(actions[3..], [Action::Refused(Refusal::NoQuorum { votes })]);
}

#[test]
fn grant_after_jump_counts() {
    let mut bench = Bench::start(1);
    assert_eq!(bench.at(2).unsound(0, 1), [], "it has not voted");
    let acquired = Action::Acquired { token: super::fixture::PROPOSAL, until: at(9_000) };
    assert_eq!(bench.vote(0, granted()), [acquired]);
}

#[test]
fn lock_without_sound_quorum_is_lost() {
    let mut bench = Bench::held();
    let actions = bench.at(5).unsound(0, 5);
    let votes = vec![jumped(), VoteOutcome::Granted, unheard(Reason::NotAwaited)];
    assert_eq!(actions, [Action::Lost(Loss::ClockJumped { votes })]);
    // It is not revived, and is released when the holder drops it.
    assert_eq!(bench.at(6).vote(2, granted()), []);
    assert_eq!(bench.wake(), []);
    assert_eq!(bench.release(false), releases(3));
}

#[test]
fn lock_with_sound_quorum_stays() {
    let mut bench = Bench::held();
    bench.at(3).vote(2, granted());
    assert_eq!(bench.at(5).unsound(0, 5), []);
    assert_eq!(bench.lease.end(), at(9_000));
    let Action::Lost(Loss::ClockJumped { .. }) = bench.at(6).unsound(1, 6)[0] else {
        panic!("one of three is left")
    };
}

#[test]
fn validity_is_that_of_sound_quorum() {
    let mut bench = Bench::held();

    bench.at(10).vote(2, granted());
    bench.at(3_000).wake();
    bench.extension(0, 3_000, extended());
    assert_eq!(bench.extension(1, 3_000, extended()), [renewed(12_000)]);
    // Of the two that are left, one confirmed at the start only.
    assert_eq!(bench.at(4_000).unsound(0, 4_000), [renewed(9_000)]);
    assert_eq!(bench.at(8_999).wake()[0], Action::Renewing);
    let lost = bench.at(9_000).wake();

    assert!(matches!(lost[..], [Action::Lost(Loss::Expired { .. })]), "{lost:?}");
}

#[test]
fn lock_past_sound_validity_is_lost() {
    let mut bench = Bench::held();
    bench.at(10).vote(2, granted());
    bench.at(3_000).wake();
    bench.extension(0, 3_000, extended());
    bench.extension(1, 3_000, extended());
    let actions = bench.at(9_000).unsound(1, 9_000);
    assert_eq!(actions[0], renewed(9_000));
    assert!(matches!(actions[1..], [Action::Lost(Loss::Expired { .. })]), "{actions:?}");
}

#[test]
fn earlier_end_makes_renewal_due() {
    let mut bench = Bench::held();

    bench.at(10).vote(2, granted());
    bench.at(3_000).wake();
    bench.extension(0, 3_000, extended());
    bench.extension(1, 3_000, extended());
    assert_eq!(bench.lease.next_wake(), Some(at(6_000)));
    bench.at(4_000).unsound(0, 4_000);

    assert_eq!(bench.lease.next_wake(), Some(at(3_000)), "a third of 9 s after 0 s: by now");
    assert_eq!(bench.wake(), round(3, 4_000, 9_000));
}

#[test]
fn confirmation_after_jump_stands() {
    let mut bench = Bench::held();
    bench.at(3_000).wake();
    bench.extension(0, 3_000, extended());
    bench.extension(1, 3_000, extended());
    assert_eq!(bench.at(3_001).unsound(0, 2_999), [], "told late of an earlier jump");
    assert_eq!(bench.lease.end(), at(12_000));
}

/// The key still existed after the jump, so the node's confirmation counts again.
#[test]
fn extension_after_jump_counts_again() {
    let mut bench = Bench::held();
    bench.at(10).vote(2, granted());
    assert_eq!(bench.at(2_000).unsound(0, 2_000), []);
    bench.at(3_000).wake();
    bench.extension(0, 3_000, extended());
    assert_eq!(bench.extension(1, 3_000, extended()), [renewed(12_000)]);
    assert_eq!(bench.lease.end(), at(12_000));
}

#[test]
fn jumps_add_up_to_slack() {
    let mut bench = Bench::held();
    assert_eq!(bench.at(5).jump(0, 5, 60), []);
    assert_eq!(bench.at(6).jump(1, 6, 60), []);
    assert_eq!(bench.at(7).jump(0, 7, 40), [], "100 ms are set aside");
    let lost = bench.at(8).jump(0, 8, 1);
    assert!(matches!(lost[..], [Action::Lost(Loss::ClockJumped { .. })]), "{lost:?}");
}

#[test]
fn jumps_before_confirmation_are_dropped() {
    let mut bench = Bench::held();
    bench.at(3_000).wake();
    assert_eq!(bench.at(3_001).jump(0, 3_001, 90), []);
    // Sent before the jump was detected, answered after it.
    bench.at(3_002).extension(0, 3_000, extended());
    bench.extension(1, 3_000, extended());
    assert_eq!(bench.at(3_003).jump(0, 3_003, 90), []);
    assert_eq!(bench.lease.end(), at(12_000));
}

#[test]
fn jump_of_refusing_node_is_ignored() {
    let mut bench = Bench::start(3);
    bench.vote(2, held("b", Some(10)));
    bench.vote(0, granted());
    bench.vote(1, granted());
    assert_eq!(bench.at(5).unsound(2, 5), []);
    assert_eq!(bench.lease.end(), at(9_000));
}

#[test]
fn loss_answers_pending_extension() {
    let jump = Event::Unsound { node: 0, seen: at(3), by_micros: BY, at_most: AT_MOST };
    let mut bench = Bench::held();
    bench.at(2).extend();

    let actions = bench.at(3).handle(jump);

    assert!(matches!(actions[..], [Action::Extended(Err(_)), Action::Lost(_)]), "{actions:?}");
    assert_eq!(bench.answer(1, OpId::Extend(at(2)), extended()), []);
}

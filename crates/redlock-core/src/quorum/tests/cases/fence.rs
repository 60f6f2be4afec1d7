//! R9: the fencing token.

use super::fixture::{
    Fixture, PROPOSAL, at, granted, granted_below, held, not_counted, releases, send,
};
use crate::{
    protocol::{Answer, HeldAnswer, OpId, RaisedAnswer},
    quorum::{Action, LeaseCommand, Refusal},
    vote::{Reason, VoteOutcome},
};

fn raise(node: usize, round: u8, token: u64) -> Action {
    send(node, LeaseCommand::Raise { round, token })
}

fn acquired(token: u64) -> Action {
    Action::Acquired { token, until: at(9_000) }
}

#[test]
fn proposal_below_fences_is_raised() {
    let mut fixture = Fixture::start(3);
    assert_eq!(fixture.at(1).vote(0, granted_below(5_000)), []);
    let asked = fixture.at(2).vote(2, granted_below(7_000));
    assert_eq!(asked, [raise(0, 1, 7_001), raise(2, 1, 7_001)]);
    assert_eq!(fixture.lease.next_wake(), Some(at(52)), "the raise has a node timeout of its own");
    assert_eq!(fixture.at(3).raised(2, 1, true), []);
    assert_eq!(fixture.at(4).raised(0, 1, true), [acquired(7_001)]);
}

/// A node that accepted the proposal takes part in the raise: acceptances of different numbers are
/// never added up.
#[test]
fn acceptances_of_different_numbers_dont_add() {
    let mut fixture = Fixture::start(3);
    fixture.vote(0, granted());
    let asked = fixture.vote(1, granted_below(2_000));
    assert_eq!(asked, [raise(0, 1, 2_001), raise(1, 1, 2_001)]);
    assert_eq!(fixture.raised(1, 1, true), [], "one accepted 1000, another 2001");
    assert_eq!(fixture.raised(0, 1, true), [acquired(2_001)]);
}

/// The lease's own block is above the reported fence: the raise goes above both.
#[test]
fn raise_goes_above_own_block() {
    let mut fixture = Fixture::start(2);
    fixture.vote(0, granted());
    let token = PROPOSAL + 256;
    let asked = fixture.vote(1, granted_below(PROPOSAL));
    assert_eq!(asked, [raise(0, 1, token), raise(1, 1, token)]);
}

#[test]
fn fence_of_refusal_counts() {
    let mut fixture = Fixture::start(3);
    fixture.vote(0, Ok(Answer::Held(HeldAnswer::new(None, None, 90_000))));
    fixture.vote(1, granted());
    let asked = fixture.vote(2, granted_below(2_000));
    assert_eq!(asked, [raise(1, 1, 90_001), raise(2, 1, 90_001)]);
}

#[test]
fn late_grant_joins_raise() {
    let mut fixture = Fixture::start(3);
    fixture.vote(0, granted_below(2_000));
    fixture.vote(1, granted_below(2_000));
    assert_eq!(fixture.vote(2, granted()), [raise(2, 1, 2_001)]);
    assert_eq!(fixture.raised(0, 1, true), []);
    assert_eq!(fixture.raised(2, 1, true), [acquired(2_001)]);
}

/// The late acceptance of the proposal completes it: the raise is not needed any more.
#[test]
fn late_acceptance_completes_proposal() {
    let mut fixture = Fixture::start(3);
    fixture.vote(0, granted_below(2_000));
    fixture.vote(1, granted());
    assert_eq!(fixture.vote(2, granted()), [acquired(PROPOSAL)]);
}

#[test]
fn key_gone_during_raise() {
    let mut fixture = Fixture::start(3);

    fixture.vote(0, granted_below(2_000));
    fixture.vote(1, granted_below(2_000));
    fixture.raised(0, 1, true);
    let gone = fixture.answer(1, OpId::Raise(1), Err(Reason::KeyGone));
    assert_eq!(gone, [], "the third node may still grant");
    let again = fixture.vote(1, granted_below(2_000));
    assert_eq!(again, [], "the first answer to the request stands");
    let actions = fixture.vote(2, held("b", Some(100)));

    assert_eq!(actions[..2], releases(2));
    // One granted, one held: the lock is held by another.
    assert!(matches!(actions[2..], [Action::Refused(Refusal::Held { .. })]), "{actions:?}");
}

/// R9 requires nodes that granted *and* accepted.
#[test]
fn acceptance_without_key_does_not_count() {
    let mut fixture = Fixture::start(5);
    fixture.vote(0, granted());
    fixture.vote(1, granted_below(2_000));
    fixture.vote(2, granted_below(2_000));
    fixture.answer(0, OpId::Raise(1), Err(Reason::KeyGone));
    assert_eq!(fixture.vote(3, granted()), [raise(3, 1, 2_001)]);
    assert_eq!(
        fixture.vote(4, granted()),
        [raise(4, 1, 2_001)],
        "1000 is accepted by 3 and 4 only"
    );
}

/// An answer to a raise is not yet an acceptance.
#[test]
fn refused_raise_does_not_count() {
    let mut fixture = Fixture::start(3);
    fixture.vote(0, granted_below(2_000));
    fixture.vote(1, granted_below(2_000));
    fixture.vote(2, granted_below(2_000));
    assert_eq!(fixture.raised(0, 1, false), []);
    assert_eq!(fixture.raised(1, 1, true), []);
    assert_eq!(fixture.raised(2, 1, true), [acquired(2_001)]);
}

#[test]
fn overtaken_raise_is_raised_again() {
    let mut fixture = Fixture::start(2);

    fixture.vote(0, granted_below(2_000));
    fixture.vote(1, granted_below(2_000));
    let overtaken = Ok(Answer::Raised(RaisedAnswer { accepted: false, fence: 8_000 }));
    let asked = fixture.at(1).answer(0, OpId::Raise(1), overtaken);
    assert_eq!(asked, [raise(0, 2, 8_001), raise(1, 2, 8_001)]);
    assert_eq!(fixture.raised(1, 1, true), [], "that number is out of the race");
    fixture.raised(1, 2, true);

    assert_eq!(fixture.raised(0, 2, true), [acquired(8_001)]);
}

#[test]
fn three_failed_raises_end_attempt() {
    let mut fixture = Fixture::start(3);

    fixture.vote(0, granted_below(2_000));
    fixture.vote(1, granted_below(2_000));
    for round in 1..=2 {
        let asked = fixture.raised(0, round, false);
        assert_eq!(asked.len(), 2, "another raise: {asked:?}");
    }
    let ahead = || not_counted(Reason::FenceAhead);
    let votes: Vec<VoteOutcome> = vec![ahead(), ahead(), not_counted(Reason::NotAwaited)];
    let mut expected = releases(3);
    expected.push(Action::Refused(Refusal::NoQuorum { votes }));

    assert_eq!(fixture.raised(1, 3, false), expected);
}

#[test]
fn unanswered_raises_time_out_in_turn() {
    let mut fixture = Fixture::start(1);
    assert_eq!(fixture.vote(0, granted_below(2_000)), [raise(0, 1, 2_001)]);
    assert_eq!(fixture.at(50).wake(), [raise(0, 2, 2_257)]);
    assert_eq!(fixture.at(100).wake(), [raise(0, 3, 2_513)]);
    let votes = vec![not_counted(Reason::FenceAhead)];
    let mut expected = releases(1);
    expected.push(Action::Refused(Refusal::NoQuorum { votes }));
    assert_eq!(fixture.at(150).wake(), expected);
}

/// Above 2^53 JSON and Lua would round the token.
#[test]
fn no_token_reaches_the_limit() {
    let mut fixture = Fixture::start(1);
    let actions = fixture.vote(0, granted_below((1 << 53) - 200));
    assert!(matches!(actions[..], [.., Action::Refused(Refusal::NoQuorum { .. })]), "{actions:?}");
}

/// More than a sound node's fence can be ahead of the proposal.
const FAR_FENCE: u64 = PROPOSAL + 60_000_001;

#[test]
fn far_fence_is_left_out() {
    let mut fixture = Fixture::start(3);
    fixture.vote(1, granted_below(5_000));
    assert_eq!(fixture.vote(0, granted_below(FAR_FENCE)), []);
    let asked = fixture.vote(2, granted_below(7_000));
    assert_eq!(asked, [0, 1, 2].map(|node| raise(node, 1, 7_001)));
    assert_eq!(fixture.raised(2, 1, true), []);
    assert_eq!(fixture.raised(1, 1, true), [acquired(7_001)]);
}

#[test]
fn fence_within_bounds_is_followed() {
    let mut fixture = Fixture::start(3);
    fixture.vote(0, granted_below(FAR_FENCE - 1));
    let asked = fixture.vote(1, granted_below(5_000));
    assert_eq!(asked, [raise(0, 1, FAR_FENCE), raise(1, 1, FAR_FENCE)]);
}

#[test]
fn raise_waits_for_near_fences() {
    let mut fixture = Fixture::start(5);
    fixture.vote(0, granted_below(FAR_FENCE));
    fixture.vote(1, granted_below(5_000));
    assert_eq!(fixture.vote(2, granted_below(6_000)), [], "two more may grant");
    assert_eq!(fixture.vote(3, held("b", Some(100))), [], "one more may");
    assert_eq!(fixture.lease.next_wake(), Some(at(50)), "not for longer than a vote takes");
    let asked = fixture.vote(4, granted());
    assert_eq!(asked, [0, 1, 2, 4].map(|node| raise(node, 1, 6_001)));
}

#[test]
fn raise_above_far_fence_comes_last() {
    let above = [raise(0, 1, FAR_FENCE + 1), raise(1, 1, FAR_FENCE + 1)];
    let far_and_near = || {
        let mut fixture = Fixture::start(3);
        fixture.vote(0, granted_below(FAR_FENCE));
        assert_eq!(fixture.vote(1, granted_below(5_000)), [], "the third may grant");
        fixture
    };

    assert_eq!(far_and_near().vote(2, held("b", Some(100))), above);
    assert_eq!(far_and_near().vote(2, Err(Reason::Loading)), above);
    let mut fixture = far_and_near();

    assert_eq!(fixture.at(49).wake(), []);
    assert_eq!(fixture.at(50).wake(), above, "the third says nothing");
    assert_eq!(fixture.raised(0, 1, true), []);
    assert_eq!(fixture.raised(1, 1, true), [acquired(FAR_FENCE + 1)]);
}

#[test]
fn far_fence_in_any_answer_ignored() {
    let mut fixture = Fixture::start(3);
    fixture.vote(0, Ok(Answer::Held(HeldAnswer::new(None, None, FAR_FENCE))));
    fixture.vote(1, granted_below(2_000));
    let asked = fixture.vote(2, granted_below(2_000));
    assert_eq!(asked, [raise(1, 1, 2_001), raise(2, 1, 2_001)]);

    let mut fixture = Fixture::start(3);
    (0..3).for_each(|node| drop(fixture.vote(node, granted_below(2_000))));
    let overtaken = |fence| Ok(Answer::Raised(RaisedAnswer { accepted: false, fence }));
    assert_eq!(fixture.answer(0, OpId::Raise(1), overtaken(FAR_FENCE)), []);
    let asked = fixture.answer(1, OpId::Raise(1), overtaken(3_000));
    assert_eq!(asked, [0, 1, 2].map(|node| raise(node, 2, 3_001)));
}

//! R1, R2, R3: grants, refusals, verdicts.

use std::time::Duration;

use super::fixture::{
    Fixture, PROPOSAL, TIMEOUT, VALIDITY, at, granted, held, not_counted, params, releases,
    releases_of, send,
};
use crate::{
    protocol::OpId,
    quorum::{Action, Event, Lease, LeaseCommand, LeaseParams, Refusal},
    vote::{Reason, VoteOutcome},
};

fn no_quorum(actions: &[Action]) -> &[VoteOutcome] {
    match actions {
        [.., Action::Refused(Refusal::NoQuorum { votes })] => votes,
        other => panic!("{other:?}"),
    }
}

fn refused_as_held(expires_in: Option<Duration>, owner: &str) -> Action {
    Action::Refused(Refusal::Held {
        expires_in,
        owner: Some(owner.into()),
        lingers: false,
        readers: 0,
        waiter: None,
    })
}

#[test]
fn all_nodes_are_asked_at_once() {
    let mut out = Vec::new();
    let lease = Lease::start(params(3), at(0), &mut out);
    let command = LeaseCommand::Acquire { token: PROPOSAL, expires: at(0) + VALIDITY };
    assert_eq!(out, [send(0, command), send(1, command), send(2, command)]);
    assert_eq!(lease.next_wake(), Some(at(50)));
}

/// A process that was paused has not read the answers yet.
#[test]
fn late_wake_reads_answers_first() {
    let mut fixture = Fixture::start(3);
    assert_eq!(fixture.at(57).wake(), [], "late by more than an eighth of the node timeout");
    assert_eq!(fixture.lease.next_wake(), Some(at(57) + TIMEOUT / 2));
    fixture.vote(0, granted());
    let acquired = Action::Acquired { token: PROPOSAL, until: at(9_000) };
    assert_eq!(fixture.vote(1, granted()), [acquired], "the validity counts from the start");
}

#[test]
fn grace_is_granted_once() {
    for second in [82, 500] {
        let mut fixture = Fixture::start(3);
        assert_eq!(fixture.at(57).wake(), []);
        assert_eq!(fixture.at(second).wake()[..3], releases(3));
    }
    let mut fixture = Fixture::start(3);
    assert_eq!(fixture.at(50).wake()[..3], releases(3), "in time, so the silence is the nodes'");
}

#[test]
fn grace_ends_before_validity() {
    let mut fixture = Fixture::start(3);
    assert_eq!(fixture.at(8_990).wake()[..3], releases(3));
}

/// A node that an operation did not reach keeps nothing of it, whatever the reason is.
#[test]
fn unsent_operation_leaves_no_orphan() {
    let mut fixture = Fixture::start(3);
    let reason = Reason::Server("too old".into());

    fixture.handle(Event::NotSent { node: 2, op: OpId::Acquire, reason: reason.clone() });
    fixture.vote(0, granted());
    fixture.vote(1, granted());
    fixture.release(false);
    let not_sent = Event::NotSent { node: 2, op: OpId::Release, reason: reason.clone() };
    assert_eq!(fixture.handle(not_sent), []);
    let unknown = fixture.answer(1, OpId::Release, Err(reason));

    assert_eq!(unknown, [Action::Orphaned { node: 1 }]);
}

/// A release that was not sent leaves what an unanswered acquire may have stored.
#[test]
fn unsent_release_may_leave_orphan() {
    let mut fixture = Fixture::start(3);
    fixture.vote(0, granted());
    fixture.vote(1, granted());
    fixture.release(false);
    let reason = Reason::Server("too old".into());
    let not_sent = Event::NotSent { node: 2, op: OpId::Release, reason };
    assert_eq!(fixture.handle(not_sent), [Action::Orphaned { node: 2 }]);
}

#[test]
fn round_zero_proposes_the_number() {
    assert_eq!(Fixture::start(3).lease.number(0), PROPOSAL);
}

#[test]
fn grants_are_counted() {
    let mut fixture = Fixture::start(5);
    assert_eq!(fixture.lease.granted(), 0);
    fixture.vote(0, granted());
    fixture.vote(1, held("b", None));
    fixture.vote(2, granted());
    assert_eq!(fixture.lease.granted(), 2);
}

#[test]
fn quorum_holds_validity_counts_from_start() {
    let mut fixture = Fixture::start(3);
    assert_eq!(fixture.at(7).vote(2, granted()), []);
    let acquired = Action::Acquired { token: PROPOSAL, until: at(9_000) };
    assert_eq!(fixture.at(9).vote(0, granted()), [acquired]);
}

#[test]
fn quorum_after_validity_is_too_slow() {
    let slow = LeaseParams { node_timeout: VALIDITY * 2, ..params(3) };

    for (ms, in_time) in [(8_999, true), (9_000, false), (9_001, false)] {
        let mut fixture = Fixture::with(slow);
        assert_eq!(fixture.at(10).vote(0, granted()), []);
        let actions = fixture.at(ms).vote(1, granted());
        if in_time {
            assert_eq!(actions, [Action::Acquired { token: PROPOSAL, until: at(9_000) }]);
        } else {
            let mut expected = releases(3);
            let elapsed = Duration::from_millis(ms);
            expected.push(Action::Refused(Refusal::TooSlow { elapsed }));
            assert_eq!(actions, expected);
        }
    }
}

#[test]
fn without_fencing_the_token_is_zero() {
    let mut fixture = Fixture::with(LeaseParams { proposal: None, ..params(1) });
    let actions = fixture.vote(0, super::fixture::granted_below(77));
    assert_eq!(actions, [Action::Acquired { token: 0, until: at(9_000) }]);
}

/// The third node has not answered; its release is sent before the verdict. The others store nothing.
#[test]
fn second_refusal_of_three_ends_attempt() {
    let mut fixture = Fixture::start(3);
    assert_eq!(fixture.at(1).vote(1, held("a", Some(800))), []);
    let mut expected = releases_of([2]);
    expected.push(refused_as_held(Some(Duration::from_millis(500)), "a"));
    assert_eq!(fixture.at(2).vote(0, held("a", Some(500))), expected);
    assert_eq!(fixture.lease.next_wake(), None);
}

#[test]
fn two_errors_of_three_end_attempt() {
    let mut fixture = Fixture::start(3);
    assert_eq!(fixture.vote(1, Err(Reason::Loading)), []);
    let actions = fixture.vote(2, Err(Reason::Disconnected));
    assert_eq!(actions[..3], releases(3));
    let expected = [Reason::NotAwaited, Reason::Loading, Reason::Disconnected].map(not_counted);
    assert_eq!(no_quorum(&actions), expected);
}

#[test]
fn a_split_of_two_nodes_ends() {
    let mut fixture = Fixture::start(2);
    assert_eq!(fixture.vote(0, granted()), []);
    let mut expected = releases_of([0]);
    expected.push(refused_as_held(Some(Duration::from_millis(300)), "b"));
    assert_eq!(fixture.vote(1, held("b", Some(300))), expected);
}

#[test]
fn a_split_of_four_nodes_ends() {
    let mut fixture = Fixture::start(4);
    assert_eq!(fixture.vote(0, granted()), []);
    assert_eq!(fixture.vote(1, granted()), []);
    assert_eq!(fixture.vote(2, held("b", Some(300))), []);
    let mut expected = releases_of([0, 1]);
    // Two are free at once, and a third when the first of the others' keys expires.
    expected.push(refused_as_held(Some(Duration::from_millis(200)), "b"));
    assert_eq!(fixture.vote(3, held("b", Some(200))), expected);
}

#[test]
fn silence_ends_at_the_node_timeout() {
    let mut fixture = Fixture::start(3);
    fixture.vote(0, granted());
    assert_eq!(fixture.at(49).wake(), [], "too early");
    let actions = fixture.at(50).wake();
    assert_eq!(actions[..3], releases(3));
    let silent = not_counted(Reason::TimedOut);
    assert_eq!(no_quorum(&actions), [VoteOutcome::Granted, silent.clone(), silent]);
}

/// Two errors do not decide the attempt while the other nodes may still report a holder. Otherwise
/// the verdict would depend on the order of the answers.
#[test]
fn verdict_waits_for_deciding_votes() {
    let mut fixture = Fixture::start(4);
    assert_eq!(fixture.vote(0, Err(Reason::Busy)), []);
    assert_eq!(fixture.vote(1, held("c", None)), releases_of([0, 2, 3]), "over, but not decided");
    assert_eq!(fixture.lease.next_wake(), Some(at(50)));
    assert_eq!(fixture.vote(2, granted()), []);
    // With one node busy and one key without a TTL, no quorum will ever be free by itself.
    let verdict = fixture.vote(3, held("c", Some(100)));
    assert_eq!(verdict, [refused_as_held(None, "c")]);
}

#[test]
fn grant_after_verdict_is_released() {
    let mut fixture = Fixture::start(3);
    fixture.vote(0, held("a", Some(10)));
    assert_eq!(fixture.vote(1, held("a", Some(10)))[..1], releases_of([2]));
    assert_eq!(fixture.at(5).vote(2, granted()), []);
    assert_eq!(fixture.acknowledge(2, true), []);
}

/// An extension may store the key on a node that refused the acquire.
#[test]
fn node_that_was_extended_is_released() {
    let mut fixture = Fixture::held();
    fixture.vote(2, held("b", None));
    fixture.at(3_000).wake();
    assert_eq!(fixture.at(3_001).release(false), releases(3));
}

#[test]
fn minority_that_refused_is_not_released() {
    let mut fixture = Fixture::held();
    fixture.vote(2, held("b", None));
    assert_eq!(fixture.at(100).release(false), releases(2));
}

#[test]
fn grant_after_timeout_is_orphan() {
    let mut fixture = Fixture::start(1);
    assert_eq!(fixture.at(50).wake()[..1], releases(1));
    assert_eq!(fixture.at(60).vote(0, granted()), []);
    let failed = fixture.answer(0, OpId::Release, Err(Reason::Disconnected));
    assert_eq!(failed, [Action::Orphaned { node: 0 }]);
}

#[test]
fn giving_up_while_acquiring_releases_everywhere() {
    let mut fixture = Fixture::start(3);
    fixture.vote(1, granted());
    assert_eq!(fixture.at(3).release(false), releases(3));
    assert_eq!(fixture.vote(2, granted()), [], "never held after that");
}

#[test]
fn expires_in_is_quorum_free_time() {
    let after = |left: [Option<u64>; 5]| {
        let mut fixture = Fixture::start(5);
        let mut last = Vec::new();
        for (node, left) in left.into_iter().enumerate().take(2) {
            fixture.vote(node, held("a", left));
        }
        for (node, left) in left.into_iter().enumerate().skip(2) {
            last.extend(fixture.vote(node, held("a", left)));
        }
        match last.pop() {
            Some(Action::Refused(Refusal::Held { expires_in, .. })) => expires_in,
            other => panic!("{other:?}"),
        }
    };

    // The third "held" decides: the two nodes without an answer count as free.
    assert_eq!(after([Some(900), Some(100), Some(500), Some(1), Some(1)]), ms(100));
    assert_eq!(after([None, Some(700), None, None, None]), ms(700));
    assert_eq!(after([None, None, None, None, None]), None, "a key without a TTL");
}

fn ms(ms: u64) -> Option<Duration> {
    Some(Duration::from_millis(ms))
}

#[test]
fn owner_is_most_named_one() {
    let mut fixture = Fixture::start(5);
    fixture.vote(0, held("minority", Some(10)));
    fixture.vote(1, granted());
    fixture.vote(2, held("majority", Some(10)));
    let last = fixture.vote(3, held("majority", Some(10))).pop();
    assert_eq!(last, Some(refused_as_held(Some(Duration::from_millis(10)), "majority")));
}

//! R3: the release of a lease.

use super::fixture::{Fixture, at, granted, held, not_counted, releases};
use crate::{
    protocol::{Answer, ExtendedAnswer, OpId},
    quorum::{Action, ReleaseVerdict},
    vote::{Reason, VoteOutcome},
};

fn verdict(verdict: ReleaseVerdict) -> Vec<Action> {
    vec![Action::Released(verdict)]
}

#[test]
fn every_node_is_released_once() {
    let mut fixture = Fixture::held();
    assert_eq!(fixture.at(100).release(true), releases(3), "node 2 never answered");
    assert_eq!(fixture.release(true), []);
}

#[test]
fn released_once_quorum_deleted_key() {
    let mut fixture = Fixture::held();
    fixture.release(true);
    assert_eq!(fixture.lease.next_wake(), Some(at(50)));
    assert_eq!(fixture.acknowledge(0, true), []);
    assert_eq!(fixture.acknowledge(0, true), [], "a node has one voice");
    assert_eq!(fixture.acknowledge(1, true), verdict(ReleaseVerdict::Released));
    assert_eq!(fixture.acknowledge(2, false), []);
    assert_eq!(fixture.lease.next_wake(), None);
}

#[test]
fn already_lost_without_quorum_of_keys() {
    let mut fixture = Fixture::held();
    fixture.release(true);
    assert_eq!(fixture.acknowledge(1, false), []);
    assert_eq!(fixture.acknowledge(0, true), []);
    assert_eq!(fixture.acknowledge(2, false), verdict(ReleaseVerdict::AlreadyLost));
}

/// With an even number of nodes, half of them is enough to deny a quorum.
#[test]
fn already_lost_if_half_are_missing() {
    let mut fixture = Fixture::held_with(super::fixture::params(4));
    fixture.release(true);
    assert_eq!(fixture.acknowledge(1, false), []);
    assert_eq!(fixture.acknowledge(2, false), verdict(ReleaseVerdict::AlreadyLost));
}

#[test]
fn no_quorum_acknowledged_in_time() {
    let mut fixture = Fixture::held();
    fixture.at(100).release(true);
    fixture.acknowledge(0, true);
    assert_eq!(fixture.at(149).wake(), []);
    let silent = not_counted(Reason::TimedOut);
    let votes = vec![VoteOutcome::Granted, silent.clone(), silent];
    assert_eq!(fixture.at(150).wake(), verdict(ReleaseVerdict::NoQuorum { votes }));
    assert_eq!(fixture.acknowledge(1, true), [], "said once");
}

#[test]
fn no_quorum_once_all_answered() {
    let mut fixture = Fixture::held();
    fixture.vote(2, held("b", None));
    fixture.release(true);
    fixture.acknowledge(0, true);
    let failed = fixture.answer(1, OpId::Release, Err(Reason::Disconnected));
    let votes =
        vec![VoteOutcome::Granted, not_counted(Reason::Disconnected), not_counted(Reason::KeyGone)];
    let expected =
        [vec![Action::Orphaned { node: 1 }], verdict(ReleaseVerdict::NoQuorum { votes })];
    assert_eq!(failed, expected.concat());
}

#[test]
fn late_answer_to_a_raise_hides_no_failed_release() {
    let mut fixture = Fixture::held();
    fixture.release(true);
    fixture.acknowledge(0, true);
    fixture.answer(1, OpId::Release, Err(Reason::Disconnected));
    fixture.answer(1, OpId::Raise(1), Err(Reason::Overloaded));

    let votes =
        vec![VoteOutcome::Granted, not_counted(Reason::Disconnected), not_counted(Reason::KeyGone)];
    assert_eq!(fixture.acknowledge(2, false), verdict(ReleaseVerdict::NoQuorum { votes }));
}

/// Of a set of names, another lease may have one, and this lease the others.
#[test]
fn refused_extension_leaves_a_key_to_release() {
    let mut fixture = Fixture::held();
    fixture.at(3_000).wake();
    fixture.extension(0, 3_000, held("b", Some(1_000)));
    assert_eq!(fixture.at(3_100).release(false), releases(3));
    let failed = fixture.answer(0, OpId::Release, Err(Reason::Disconnected));
    assert_eq!(failed, [Action::Orphaned { node: 0 }]);
}

#[test]
fn nobody_waits_and_nothing_is_said() {
    let mut fixture = Fixture::held();
    assert_eq!(fixture.release(false), releases(3));
    assert_eq!(fixture.lease.next_wake(), None);
    assert_eq!(fixture.acknowledge(0, true), []);
    assert_eq!(fixture.acknowledge(1, true), []);
    assert_eq!(fixture.at(1_000).wake(), []);
}

#[test]
fn unacknowledged_release_reports_orphan() {
    let mut fixture = Fixture::start(5);

    fixture.vote(0, granted());
    fixture.vote(1, held("b", Some(5)));
    fixture.vote(2, Err(Reason::NotConnected("refused".into())));
    fixture.vote(3, Err(Reason::TimedOut));
    fixture.release(false);
    let mut fail = |node| fixture.answer(node, OpId::Release, Err(Reason::Unknown));

    assert_eq!(fail(0), [Action::Orphaned { node: 0 }], "it granted");
    assert_eq!(fail(1), [], "it keeps another's key");
    assert_eq!(fail(2), [], "nothing was sent");
    assert_eq!(fail(3), [Action::Orphaned { node: 3 }], "it may have granted");
    assert_eq!(fail(4), [Action::Orphaned { node: 4 }], "it has not answered");
    assert_eq!(fail(4), [], "said once");
}

#[test]
fn other_answer_is_no_acknowledgement() {
    let mut fixture = Fixture::held();
    fixture.release(false);
    let odd = fixture.answer(0, OpId::Release, Ok(Answer::Extended(ExtendedAnswer::UNAWAITED)));
    assert_eq!(odd, [Action::Orphaned { node: 0 }]);
}

/// Node 2 turned the first request away when an extension was under way to it already: the
/// extension stores the key, and only an acknowledged release rules it out.
#[test]
fn late_refusal_keeps_extension_orphan() {
    for stored in [Ok(Answer::Extended(ExtendedAnswer::UNAWAITED)), Err(Reason::TimedOut)] {
        for refusal in [Err(Reason::Late), held("b", Some(1))] {
            let mut fixture = Fixture::held();
            fixture.at(10).extend();
            fixture.at(20).vote(2, refusal);
            fixture.extension(2, 10, stored.clone());
            fixture.release(false);
            let failed = fixture.answer(2, OpId::Release, Err(Reason::Disconnected));
            assert_eq!(failed, [Action::Orphaned { node: 2 }]);
        }
    }
}

/// The same with two rounds of renewal under way.
#[test]
fn earlier_round_keeps_later_orphan() {
    let mut fixture = Fixture::held();
    fixture.at(3_000).wake();
    fixture.at(3_250).wake();
    fixture.extension(2, 3_000, held("b", Some(1)));
    fixture.extension(2, 3_250, Err(Reason::TimedOut));
    fixture.release(false);
    let failed = fixture.answer(2, OpId::Release, Err(Reason::Disconnected));
    assert_eq!(failed, [Action::Orphaned { node: 2 }]);
}

//! R4: renewal, extension, loss.

use std::time::Duration;

use super::fixture::{
    Fixture, VALIDITY, at, extended, granted, held, not_counted, params, renewed, round, send,
};
use crate::{
    protocol::OpId,
    quorum::{Action, Event, Halt, LeaseCommand, LeaseParams, Loss},
    timestamp::Timestamp,
    vote::{Reason, VoteOutcome},
};

fn stolen_by(owner: &str) -> Action {
    Action::Lost(Loss::Stolen { owner: Some(owner.into()) })
}

#[test]
fn renewal_is_due_at_third() {
    let mut fixture = Fixture::held();
    assert_eq!(fixture.lease.next_wake(), Some(at(3_000)));
    assert_eq!(fixture.at(2_999).wake(), []);
    assert_eq!(fixture.at(3_000).wake(), round(3, 3_000, 9_000), "to every node");
    assert_eq!(fixture.at(3_001).extension(0, 3_000, extended()), []);
    assert_eq!(fixture.at(3_002).extension(2, 3_000, extended()), [renewed(12_000)]);
    assert_eq!(fixture.lease.next_wake(), Some(at(6_000)), "counted from the renewal's start");
    assert_eq!(fixture.at(3_003).extension(1, 3_000, extended()), []);
}

#[test]
fn failed_renewal_is_retried_until_deadline() {
    let mut fixture = Fixture::held();
    let mut rounds = 0;
    let lost = loop {
        let next = fixture.lease.next_wake().unwrap();
        fixture.at(u64::try_from(next.saturating_duration_since(at(0)).as_millis()).unwrap());
        let actions = fixture.wake();
        if let [Action::Lost(loss)] = &actions[..] {
            break loss.clone();
        }
        assert_eq!(actions[0], Action::Renewing);
        fixture.extension(0, ms(fixture.now), Err(Reason::OutOfMemory));
        rounds += 1;
    };

    // From 3 s to 9 s, every 250 ms.
    assert_eq!(rounds, 24);
    assert_eq!(fixture.now, at(9_000));

    // The grant of node 1 does not answer a renewal.
    let silent = not_counted(Reason::TimedOut);
    let votes = vec![not_counted(Reason::OutOfMemory), silent.clone(), silent];

    assert_eq!(lost, Loss::Expired { votes });
}

#[test]
fn next_wake_follows_a_wake() {
    let mut fixture = Fixture::held();

    for ms in (3_000..=6_000).step_by(250) {
        fixture.at(ms).wake();
    }
    // A third of the validity after its start, and at the start of another round.
    fixture.extension(0, 3_000, extended());

    assert_eq!(fixture.extension(2, 3_000, extended()), [renewed(12_000)]);
    assert_eq!(fixture.wake(), []);
    assert_eq!(fixture.lease.next_wake(), Some(at(6_250)));
}

fn ms(moment: Timestamp) -> u64 {
    u64::try_from(moment.saturating_duration_since(at(0)).as_millis()).unwrap()
}

#[test]
fn lease_survives_two_silent_nodes() {
    let mut fixture = Fixture::held();
    fixture.at(3_000).wake();
    fixture.extension(1, 3_000, extended());
    fixture.extension(0, 3_000, Err(Reason::TimedOut));
    fixture.at(3_250).wake();
    fixture.at(8_999).wake();
    assert_eq!(fixture.extension(1, 8_999, extended()), []);
    assert_eq!(fixture.extension(0, 8_999, extended()), [renewed(17_999)]);
}

#[test]
fn late_grant_counts_from_its_start() {
    let mut fixture = Fixture::held();
    assert_eq!(fixture.at(10).vote(2, granted()), []);
    fixture.at(3_000).wake();
    assert_eq!(fixture.extension(2, 3_000, extended()), [], "one of three");
    assert_eq!(fixture.extension(1, 3_000, extended()), [renewed(12_000)]);
}

#[test]
fn quorum_naming_another_ends_lease() {
    let mut fixture = Fixture::held();
    fixture.at(3_000).wake();
    assert_eq!(fixture.extension(0, 3_000, held("thief", Some(9))), []);
    assert_eq!(fixture.extension(2, 3_000, held("thief", Some(9))), [stolen_by("thief")]);
    assert_eq!(fixture.lease.next_wake(), None);
    assert_eq!(fixture.extension(1, 3_000, extended()), [], "not revived");
}

#[test]
fn minority_naming_another_is_outvoted() {
    let mut fixture = Fixture::held();
    fixture.at(3_000).wake();
    assert_eq!(fixture.extension(0, 3_000, held("thief", Some(9))), []);
    assert_eq!(fixture.extension(1, 3_000, extended()), []);
    assert_eq!(fixture.extension(2, 3_000, extended()), [renewed(12_000)]);
}

#[test]
fn refusal_of_older_round_is_ignored() {
    let mut fixture = Fixture::held();
    fixture.at(3_000).wake();
    fixture.at(3_250).wake();
    assert_eq!(fixture.extension(0, 3_250, extended()), []);
    assert_eq!(fixture.extension(0, 3_000, held("thief", Some(9))), []);
    assert_eq!(fixture.extension(1, 3_250, extended()), [renewed(12_250)]);
}

#[test]
fn expired_lease_is_not_revived() {
    let mut fixture = Fixture::held();

    fixture.at(3_000).wake();
    fixture.extension(0, 3_000, extended());
    // The confirming answer arrives at the end, which is too late for any answer.
    let lost = fixture.at(9_000).extension(1, 3_000, extended());
    let granted = VoteOutcome::Granted;
    let votes = vec![granted.clone(), granted, not_counted(Reason::TimedOut)];

    assert_eq!(lost, [Action::Lost(Loss::Expired { votes })]);
    assert_eq!(fixture.extension(2, 3_000, extended()), []);
    assert_eq!(fixture.wake(), []);
    assert_eq!(fixture.extend(), []);
}

#[test]
fn lost_lease_is_released_on_drop() {
    let mut fixture = Fixture::held();
    let lost = fixture.at(9_000).wake();
    assert!(matches!(lost[..], [Action::Lost(_)]), "{lost:?}");
    assert_eq!(fixture.at(9_100).release(false), super::fixture::releases(3));
}

#[test]
fn max_hold_ends_renewable_lease() {
    let mut fixture =
        Fixture::held_with(LeaseParams { max_hold: Duration::from_secs(10), ..params(3) });
    fixture.at(3_000).wake();
    fixture.extension(0, 3_000, extended());
    assert_eq!(fixture.extension(1, 3_000, extended()), [Action::Renewed { until: at(10_000) }]);
    assert_eq!(fixture.lease.next_wake(), Some(at(10_000)), "no renewal beyond the limit");
    assert_eq!(fixture.at(9_999).wake(), []);
    assert_eq!(fixture.at(10_000).wake(), [Action::Lost(Loss::MaxHold)]);
}

#[test]
fn max_hold_of_validity_renews_nothing() {
    let mut fixture = Fixture::held_with(LeaseParams { max_hold: VALIDITY, ..params(3) });
    assert_eq!(fixture.lease.next_wake(), Some(at(9_000)));
    assert_eq!(fixture.at(9_000).wake(), [Action::Lost(Loss::MaxHold)]);
}

#[test]
fn max_hold_below_validity_ends_first() {
    let short = LeaseParams { max_hold: Duration::from_secs(2), ..params(1) };
    let mut fixture = Fixture::with(short);
    let acquired = Action::Acquired { token: 1_000, until: at(2_000) };
    assert_eq!(fixture.vote(0, granted()), [acquired]);
    assert_eq!(fixture.at(2_000).wake(), [Action::Lost(Loss::MaxHold)]);
}

#[test]
fn without_auto_extend_nothing_is_renewed() {
    let mut fixture = Fixture::held_with(LeaseParams { auto_extend: false, ..params(3) });

    assert_eq!(fixture.lease.next_wake(), Some(at(9_000)));
    assert_eq!(fixture.at(8_000).wake(), []);
    // An explicit extension does not start renewal.
    assert_eq!(fixture.extend(), round(3, 8_000, 9_000));
    fixture.extension(0, 8_000, extended());
    let actions = fixture.extension(1, 8_000, extended());

    assert_eq!(actions, [renewed(17_000), Action::Extended(Ok(()))]);
    assert_eq!(fixture.lease.next_wake(), Some(at(17_000)));
}

#[test]
fn failed_extension_leaves_lock_unchanged() {
    let mut fixture = Fixture::held();

    assert_eq!(fixture.at(1_000).extend(), round(3, 1_000, 9_000));
    fixture.extension(0, 1_000, extended());
    fixture.extension(1, 1_000, Err(Reason::OutOfMemory));
    assert_eq!(fixture.lease.next_wake(), Some(at(1_050)));
    let votes =
        vec![VoteOutcome::Granted, not_counted(Reason::OutOfMemory), not_counted(Reason::TimedOut)];
    assert_eq!(fixture.at(1_050).wake(), [Action::Extended(Err(votes))]);
    assert_eq!(fixture.lease.end(), at(9_000));
    let late = fixture.at(1_060).extension(2, 1_000, extended());

    assert_eq!(late, [renewed(10_000)], "late for the caller, not for the lock");
}

#[test]
fn loss_answers_extension() {
    let mut fixture = Fixture::held();
    fixture.at(8_990).extend();
    let actions = fixture.at(9_000).wake();
    assert!(
        matches!(actions[..], [Action::Extended(Err(_)), Action::Lost(Loss::Expired { .. })]),
        "{actions:?}"
    );
}

/// A node that lost the key gets it again, and counts again from then on.
#[test]
fn regranted_node_counts_again() {
    let mut fixture = Fixture::start(3);

    fixture.vote(2, held("b", Some(1)));
    fixture.vote(0, granted());
    fixture.vote(1, granted());
    assert_eq!(fixture.at(3_000).wake(), round(3, 3_000, 9_000), "to the one that refused too");
    fixture.extension(2, 3_000, extended());
    assert_eq!(fixture.extension(0, 3_000, extended()), [renewed(12_000)]);
    fixture.release(false);
    let failed = fixture.answer(2, OpId::Release, Err(Reason::TimedOut));

    assert_eq!(failed, [Action::Orphaned { node: 2 }]);
}

#[test]
fn regrant_is_bounded_by_validity() {
    let mut fixture = Fixture::held();
    fixture.at(3_000).wake();
    fixture.extension(0, 3_000, extended());
    fixture.extension(1, 3_000, extended());
    let command = LeaseCommand::Extend { started: at(6_000), until: at(12_000) };
    assert!(fixture.at(6_000).wake().contains(&send(2, command)));
}

#[test]
fn halted_lease_expires_without_renewal() {
    let mut fixture = Fixture::held();

    assert_eq!(fixture.at(3_000).wake(), round(3, 3_000, 9_000));
    fixture.extension(0, 3_000, extended());
    assert_eq!(fixture.handle(Event::Halt(Halt::Stalled)), []);
    assert_eq!(fixture.extension(1, 3_000, extended()), [], "the round under way is void");
    assert_eq!(fixture.lease.next_wake(), Some(at(9_000)), "what is valid is not cut");
    assert_eq!(fixture.at(8_000).wake(), []);
    let refused = fixture.extend();

    assert!(matches!(refused[..], [Action::Extended(Err(_))]), "{refused:?}");
    assert_eq!(fixture.handle(Event::Halt(Halt::NoHeartbeat)), [], "the first reason stands");
    assert_eq!(fixture.at(9_000).wake(), [Action::Lost(Loss::Halted(Halt::Stalled))]);
}

#[test]
fn halt_answers_extension() {
    let mut fixture = Fixture::held();
    fixture.at(1_000).extend();
    let actions = fixture.handle(Event::Halt(Halt::NoHeartbeat));
    assert!(matches!(actions[..], [Action::Extended(Err(_))]), "{actions:?}");
}

#[test]
fn halt_after_end_changes_nothing() {
    let mut fixture = Fixture::held();
    let lost = fixture.at(9_000).handle(Event::Halt(Halt::Stalled));
    assert!(matches!(lost[..], [Action::Lost(Loss::Expired { .. })]), "{lost:?}");
}

#[test]
fn stop_names_cause_of_end() {
    let mut attempt = Fixture::start(3);
    assert_eq!(attempt.at(1).handle(Event::Stop), [], "nothing is held");

    let mut fixture = Fixture::held();
    fixture.at(8_990).extend();
    let lost = fixture.at(8_997).handle(Event::Stop);
    let expired = |action: &Action| matches!(action, Action::Lost(Loss::Expired { .. }));
    assert!(matches!(&lost[..], [Action::Extended(Err(_)), end] if expired(end)), "{lost:?}");
    assert_eq!(fixture.handle(Event::Stop), [], "once");
    assert_eq!(fixture.extension(0, 8_990, extended()), []);
    assert_eq!(fixture.extension(1, 8_990, extended()), [], "it is not revived");

    let mut fixture =
        Fixture::held_with(LeaseParams { max_hold: Duration::from_secs(2), ..params(3) });
    assert_eq!(fixture.at(1_997).handle(Event::Stop), [Action::Lost(Loss::MaxHold)]);
}

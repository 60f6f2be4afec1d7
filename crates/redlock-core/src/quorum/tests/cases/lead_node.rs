//! The lead node.

use std::time::Duration;

use super::fixture::{Fixture, VALIDITY, at, granted, held, params};
use crate::{
    quorum::{Action, LeadNode, Lease, LeaseCommand, LeaseParams, Refusal},
    vote::Reason,
};

const LEAD_TIMEOUT: Duration = Duration::from_millis(10);

fn asked_lead(node: usize) -> LeaseParams {
    LeaseParams { lead_node: Some(LeadNode { node, max_delay: LEAD_TIMEOUT }), ..params(5) }
}

fn asked(actions: &[Action]) -> Vec<usize> {
    let acquires = actions.iter().filter_map(|action| match action {
        Action::Send { node, command: LeaseCommand::Acquire { .. } } => Some(*node),
        _ => None,
    });
    acquires.collect()
}

fn released(actions: &[Action]) -> Vec<usize> {
    let releases = actions.iter().filter_map(|action| match action {
        Action::Send { node, command: LeaseCommand::Release } => Some(*node),
        _ => None,
    });
    releases.collect()
}

#[test]
fn lead_alone_is_asked_first() {
    let mut out = Vec::new();

    drop(Lease::start(asked_lead(1), at(0), &mut out));
    assert_eq!(asked(&out), [1]);
    let mut fixture = Fixture::with(asked_lead(1));
    assert_eq!(asked(&fixture.vote(1, granted())), [0, 2, 3, 4]);
    assert!(fixture.vote(0, granted()).is_empty());
    let decided = fixture.vote(4, granted());
    // The validity counts from the request to the lead node.
    let until = at(0) + VALIDITY;

    assert!(
        decided.iter().any(|a| matches!(a, Action::Acquired { until: end, .. } if *end == until))
    );
}

#[test]
fn refused_by_lead_releases_nothing() {
    let mut fixture = Fixture::with(asked_lead(0));
    let actions = fixture.vote(0, held("other", Some(5_000)));

    assert_eq!((asked(&actions), released(&actions)), (vec![], vec![]));
    let Some(Action::Refused(Refusal::Held { expires_in, owner, .. })) = actions.last() else {
        panic!("{actions:?}")
    };

    assert_eq!((owner.as_deref(), *expires_in), (Some("other"), Some(Duration::from_secs(5))));
    assert!(fixture.lease.refused_by_lead());
    assert_eq!(fixture.lease.next_wake(), None);
    assert!(!Fixture::held().lease.refused_by_lead());
}

#[test]
fn silent_or_failing_lead_is_skipped() {
    let mut fixture = Fixture::with(asked_lead(0));
    assert_eq!(fixture.lease.next_wake(), Some(at(0) + LEAD_TIMEOUT));
    assert!(fixture.at(9).wake().is_empty());
    assert_eq!(asked(&fixture.at(10).wake()), [1, 2, 3, 4]);
    // The other nodes have the whole node timeout.
    assert_eq!(fixture.lease.next_wake(), Some(at(60)));
    for node in [1, 2] {
        assert!(fixture.vote(node, granted()).is_empty());
    }
    assert!(matches!(fixture.vote(3, granted())[..], [Action::Acquired { .. }]));

    let mut fixture = Fixture::with(asked_lead(0));
    let refused = fixture.vote(0, Err(Reason::Loading));
    assert_eq!(asked(&refused), [1, 2, 3, 4]);
}

#[test]
fn early_release_goes_to_lead_only() {
    let mut fixture = Fixture::with(asked_lead(2));
    let actions = fixture.handle(crate::quorum::Event::Release { awaited: false });
    assert_eq!((asked(&actions), released(&actions)), (vec![], vec![2]));
    // A late grant is released; no other node is sent anything.
    assert!(fixture.vote(2, granted()).is_empty());
    assert!(fixture.wake().is_empty());
}

#[test]
fn lead_beyond_set_is_ignored() {
    let mut out = Vec::new();
    drop(Lease::start(asked_lead(5), at(0), &mut out));
    assert_eq!(asked(&out), [0, 1, 2, 3, 4]);
}

#[test]
fn two_nodes_have_no_lead() {
    let mut out = Vec::new();
    let few =
        LeaseParams { lead_node: Some(LeadNode { node: 0, max_delay: LEAD_TIMEOUT }), ..params(2) };
    drop(Lease::start(few, at(0), &mut out));
    assert_eq!(asked(&out), [0, 1]);
}

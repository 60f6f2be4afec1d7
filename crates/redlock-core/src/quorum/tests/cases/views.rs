//! R14: answers count together over servers with equal views.

use std::sync::Arc;

use super::fixture::{Fixture, at, extended, granted, granted_below, renewed, round, send};
use crate::{
    protocol::{
        Answer, OpId, RaisedAnswer,
        views::{Incarnation, View},
    },
    quorum::{Action, Event, LeaseCommand, Refusal},
    vote::{Reason, VoteOutcome},
};

/// Returns the server that has been enrolled `epoch` times under the name of `node`.
fn server(node: usize, epoch: u32) -> Incarnation {
    Incarnation { epoch, id: node as u128, nonce: 0 }
}

/// Returns the view in which the servers with these epochs are the owners.
fn view(epochs: [u32; 3]) -> Option<Arc<View>> {
    Some((0..3).map(|node| Some(server(node, epochs[node]))).collect())
}

impl Fixture {
    fn hear(
        &mut self,
        (node, epochs): (usize, [u32; 3]),
        op: OpId,
        result: Result<Answer, Reason>,
    ) -> Vec<Action> {
        self.handle(Event::Answer { node, op, result, view: view(epochs) })
    }
}

const FIRST: [u32; 3] = [1, 1, 1];
/// The name of node 1 leads to another server.
const MOVED: [u32; 3] = [1, 2, 1];

#[test]
fn grants_of_agreeing_servers_count() {
    let mut fixture = Fixture::start(3);
    fixture.hear((0, MOVED), OpId::Acquire, granted());
    let acquired = fixture.hear((1, MOVED), OpId::Acquire, granted());
    assert!(matches!(acquired[..], [Action::Acquired { .. }]), "{acquired:?}");
}

#[test]
fn former_servers_grant_does_not_count() {
    let mut fixture = Fixture::start(3);

    fixture.hear((0, MOVED), OpId::Acquire, granted());
    assert_eq!(fixture.hear((1, FIRST), OpId::Acquire, granted()), []);
    let refused = fixture.vote(2, Err(Reason::TimedOut));
    let Some(Action::Refused(Refusal::NoQuorum { votes })) = refused.last() else {
        panic!("{refused:?}")
    };
    // Neither of the two counts with the other.
    let differ = VoteOutcome::NotCounted(Reason::NamesDiffer);

    assert_eq!(votes[..2], [differ.clone(), differ]);
}

/// The server that accepted the token is not the one that granted, and has another fence.
#[test]
fn raise_by_another_server_voids_grant() {
    let raise = |view_of_raise: [u32; 3]| {
        let mut fixture = Fixture::start(3);
        fixture.hear((0, FIRST), OpId::Acquire, granted_below(5_000));
        let asked = fixture.hear((1, FIRST), OpId::Acquire, granted_below(5_000));
        let command = LeaseCommand::Raise { round: 1, token: 5_001 };
        assert_eq!(asked, [send(0, command), send(1, command)]);
        let raised = || Ok(Answer::Raised(RaisedAnswer { accepted: true, fence: 0 }));
        assert_eq!(fixture.hear((0, FIRST), OpId::Raise(1), raised()), []);
        fixture.hear((1, view_of_raise), OpId::Raise(1), raised())
    };

    assert_eq!(raise(FIRST), [Action::Acquired { token: 5_001, until: at(9_000) }]);
    assert_eq!(raise(MOVED), [], "the third node may still grant");
}

#[test]
fn former_servers_extension_does_not_count() {
    let extend = |view_of_second: [u32; 3]| {
        let mut fixture = Fixture::start(3);
        fixture.hear((0, FIRST), OpId::Acquire, granted());
        fixture.hear((1, FIRST), OpId::Acquire, granted());
        let sent = fixture.at(3_000).wake();
        assert_eq!(sent, round(3, 3_000, 9_000));
        fixture.hear((0, MOVED), OpId::Extend(at(3_000)), extended());
        fixture.hear((1, view_of_second), OpId::Extend(at(3_000)), extended())
    };

    assert_eq!(extend(MOVED), [renewed(12_000)]);
    assert_eq!(extend(FIRST), []);
}

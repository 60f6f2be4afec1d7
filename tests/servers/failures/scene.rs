//! Three nodes, of which one or two fail.

use std::sync::Arc;
use std::time::Duration;

use tower_redlock::node::{LeaseId, Nonce};
use tower_redlock::time::{Clock, SystemClock};
use tower_redlock::{
    LockError, Redlock, RedlockBuilder, Resource,
    error::{Reason, VoteOutcome, Votes},
    lock::Released,
    node::{NodeHealth, NodeState},
};

use crate::support::{RedisServer, eventually_async, over};
pub(super) use crate::support::{all_vote, in_time, urls};

/// Longer than any answer takes, so that no test depends on it.
pub(super) const AMPLE: Duration = Duration::from_secs(6);

/// A builder with a long timeout for each answer, so that only answers decide.
pub(super) fn patient(urls: impl IntoIterator<Item = String>) -> RedlockBuilder {
    over(Redlock::builder(), urls).ttl(AMPLE * 10).node_timeout(AMPLE)
}

pub(super) fn manager(urls: impl IntoIterator<Item = String>) -> Redlock {
    patient(urls).build().expect("valid settings")
}

/// A manager that closes a connection after two seconds without an answer.
pub(super) fn watchful(urls: impl IntoIterator<Item = String>) -> Redlock {
    watchful_builder(urls).build().expect("valid settings")
}

pub(super) fn watchful_builder(urls: impl IntoIterator<Item = String>) -> RedlockBuilder {
    patient(urls).node_timeout(Duration::from_millis(200))
}

/// Checks that one bad node of three has no effect, and that two cause a `NoQuorum` with a reason
/// for both that `expected` accepts. `build` makes the manager from three URLs.
pub(super) async fn a_bad_minority_is_harmless_and_a_bad_majority_is_named(
    bad: [String; 2],
    build: impl Fn(Vec<String>) -> Redlock,
    expected: impl Fn(&Reason) -> bool,
) {
    let good = RedisServer::start_n(2);
    let [first, second] = bad;
    let minority = build(vec![first.clone(), good[0].url(), good[1].url()]);
    works(&minority).await;
    let majority = build(vec![first, good[0].url(), second]);
    settled(&majority).await;
    assert_refused(&majority, &[0, 2], &expected).await;
    // The error does not change, and the other node still works.
    assert_refused(&majority, &[0, 2], &expected).await;
    works(&minority).await;
}

/// Acquires and releases a lock.
pub(super) async fn works(redlock: &Redlock) {
    let both = async {
        let lock = redlock.lock("works").await.unwrap_or_else(|error| panic!("no lock: {error}"));
        lock.release().await.unwrap_or_else(|error| panic!("no release: {error}"))
    };
    let released = in_time(both).await;
    assert!(matches!(released, Released::Released), "{released:?}");
}

/// Waits until every node's first connection attempt has ended.
pub(super) async fn settled(redlock: &Redlock) {
    let connecting = |node: &NodeHealth| node.state == NodeState::Connecting;
    eventually_async("every node is up or down", async || !redlock.health().iter().any(connecting))
        .await;
}

/// Checks that there is no quorum, and that the votes of the nodes at `bad` have a reason that was
/// `expected`.
pub(super) async fn assert_refused(
    redlock: &Redlock,
    bad: &[usize],
    expected: impl Fn(&Reason) -> bool,
) {
    let votes = refused(redlock).await;
    let health = redlock.health();
    assert_eq!(votes.len(), health.len());
    for &i in bad {
        assert_eq!(votes[i].node, health[i].name);
        match &votes[i].outcome {
            VoteOutcome::NotCounted(reason) if expected(reason) => {}
            other => panic!("an unexpected vote of {i}: {other:?}"),
        }
    }
}

/// The votes of an attempt that finds no quorum.
pub(super) async fn refused(redlock: &Redlock) -> Votes {
    match in_time(async { redlock.lock("refused").await }).await {
        Err(LockError::NoQuorum { votes }) => votes,
        other => panic!("expected NoQuorum, got {other:?}"),
    }
}

/// Waits until node `i` is down, and gives the reason.
pub(super) async fn down(redlock: &Redlock, i: usize) -> Reason {
    let reason = || match &redlock.health()[i].state {
        NodeState::Down { reason, .. } => Some(reason.clone()),
        _ => None,
    };
    let mut found = None;
    eventually_async("the node is down", async || {
        found = reason();
        found.is_some()
    })
    .await;
    found.expect("a reason")
}

/// A lease on "a" for asking a node directly.
pub(super) fn lease_with(nonce: Nonce) -> Arc<LeaseId> {
    let resource = Resource::try_from("a").expect("a valid name");
    Arc::new(LeaseId::new(resource, nonce, "test".into(), SystemClock::new().wall()))
}

//! Servers, each behind a proxy, and managers over them.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tower_redlock::{
    Redlock, RedlockBuilder,
    error::{Reason, VoteOutcome, Votes},
};

pub(crate) use crate::support::{LONG, ServerScene as Scene, all_vote, connected, patient};

/// Longest time by which a lock is lost before the end of its validity.
pub(crate) const LONGEST_LEAD: Duration = Duration::from_millis(22);

impl Scene {
    /// The remaining TTLs of the key of `name`, in ms.
    pub(crate) fn pttls(&self, name: &str) -> Vec<i64> {
        self.servers.iter().map(|server| server.pttl(&key(name))).collect()
    }
}

/// The key of a lock with the default prefix.
pub(crate) fn key(name: &str) -> String {
    format!("redlock:lock:{name}")
}

/// Settings with the default node timeout, under which nothing expires.
pub(crate) fn brisk() -> RedlockBuilder {
    Redlock::builder().ttl(LONG)
}

/// One poll, with a waker that does nothing.
pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Returns why the votes did not count; panics at a vote that did.
#[track_caller]
pub(crate) fn reasons(votes: &Votes) -> Vec<Reason> {
    votes
        .iter()
        .map(|vote| match &vote.outcome {
            VoteOutcome::NotCounted(reason) => reason.clone(),
            other => panic!("{} has {other:?}", vote.node),
        })
        .collect()
}

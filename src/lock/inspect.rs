//! Finds the holder of a name.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{client::Client, query::query};
use crate::{
    error::{LockError, Reason, VoteOutcome, Votes},
    protocol::{Answer, Op, Stored, StoredLease, formulas},
    resource::Resource,
    token::FencingToken,
};

/// The holder of a name, as the nodes report it.
#[derive(Clone)]
#[non_exhaustive]
pub struct Holder {
    /// The name.
    pub name: Arc<str>,
    /// The holder's [`owner`](crate::RedlockBuilder::owner); `None` for a key that this crate did
    /// not write.
    pub owner: Option<Arc<str>>,
    /// Start of the lease, by the holder's wall clock.
    pub since: Option<SystemTime>,
    /// Time until fewer than a quorum of nodes keep the key, without a renewal. Until the first
    /// renewal it is a [`node_timeout`](crate::RedlockBuilder::node_timeout) longer than the lease.
    /// `None` if the key has no TTL.
    pub remaining: Option<Duration>,
    /// The holder's fencing token; zero without fencing. After a hand-off within its process, the
    /// token of an earlier holder, because the nodes do not know of hand-offs.
    pub token: FencingToken,
    /// Whether a quorum of nodes keeps the key. Otherwise it comes from an attempt in flight, or
    /// from a holder that crashed.
    pub is_quorum: bool,
    /// Number of nodes that keep the key of this lease. The [`votes`](Self::votes) also show keys
    /// of another lease of the same owner.
    pub kept: usize,
    /// Whether a request of another process that waits was refused since the lease began. It may
    /// have given up since. Not known of a [slot](crate::LockOptions::slots), and false.
    pub is_awaited: bool,
    /// Whether the holder's process may keep the lock after its release, for its next request
    /// ([`LockOptions::linger`](crate::LockOptions::linger)): it may be unused.
    pub lingers: bool,
    /// What each node keeps: [`VoteOutcome::Held`] with the key's owner, or
    /// [`Reason::KeyGone`](crate::error::Reason::KeyGone) if there is no key.
    pub votes: Votes,
    pub(super) lease: Option<StoredLease>,
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holder")
            .field("name", &self.name)
            .field("owner", &self.owner)
            .field("since", &self.since)
            .field("remaining", &self.remaining)
            .field("token", &self.token)
            .field("is_quorum", &self.is_quorum)
            .field("kept", &self.kept)
            .field("is_awaited", &self.is_awaited)
            .field("lingers", &self.lingers)
            .field("votes", &self.votes)
            .finish_non_exhaustive()
    }
}

/// Returns the holder of the first name of a resource that is held.
pub(crate) async fn inspect(
    client: &Client,
    resource: &Resource,
) -> Result<Option<Holder>, LockError> {
    for name in resource.shared_names() {
        let found = inspect_name(client, name).await;
        if let Some(holder) = found.map_err(|votes| LockError::NoQuorum { votes })? {
            return Ok(Some(holder));
        }
    }
    Ok(None)
}

/// Returns the holder of one name, or the votes if too few nodes answered.
pub(super) async fn inspect_name(
    client: &Client,
    name: &Arc<str>,
) -> Result<Option<Holder>, Votes> {
    inspect_names(client, &[Arc::clone(name)].into(), |_| false)
        .await
        .map(|mut holders| holders.pop().flatten())
}

/// Returns the holder of each name, by the answers of all nodes or those that are `enough`; or the
/// votes if too few nodes answered.
pub(super) async fn inspect_names(
    client: &Client,
    names: &Arc<[Arc<str>]>,
    enough: fn(&[Result<Answer, Reason>]) -> bool,
) -> Result<Vec<Option<Holder>>, Votes> {
    let op = Op::Inspect(Arc::clone(names));
    let answers: Vec<_> =
        query(client, &op, enough).await.into_iter().map(|answer| found(names, answer)).collect();
    if answers.iter().flatten().count() < formulas::quorum(answers.len()) {
        // For several names, the vote on the first one.
        let first = |answer: &NodeKeys| match answer {
            Ok(found) => vote(&Ok(found[0].as_ref())),
            Err(reason) => VoteOutcome::NotCounted(reason.clone()),
        };
        return Err(client.votes(answers.iter().map(first).collect()));
    }
    let holders = names.iter().enumerate().map(|(nth, name)| {
        let keys: Vec<_> = answers
            .iter()
            .map(|answer| answer.as_ref().map(|found| found[nth].as_ref()).map_err(Clone::clone))
            .collect();
        holder(client, name, &keys)
    });
    Ok(holders.collect())
}

/// The key of each name on one node.
type NodeKeys = Result<Vec<Option<Stored>>, Reason>;

fn found(names: &[Arc<str>], answer: Result<Answer, Reason>) -> NodeKeys {
    match answer? {
        Answer::Inspected(found) if found.len() == names.len() => Ok(found),
        _ => Err(Reason::Protocol("not what was asked for".into())),
    }
}

fn holder(
    client: &Client,
    name: &Arc<str>,
    keys: &[Result<Option<&Stored>, Reason>],
) -> Option<Holder> {
    let quorum = formulas::quorum(keys.len());
    let votes = client.votes(keys.iter().map(vote).collect());
    let stored: Vec<&Stored> = keys.iter().flatten().copied().flatten().collect();
    // The nonce distinguishes leases of one owner. Foreign keys have none, so all of them count as
    // one lease.
    let same = |a: &Stored, b: &Stored| {
        a.lease.as_ref().map(|lease| lease.nonce) == b.lease.as_ref().map(|lease| lease.nonce)
    };
    let count = |one: &Stored| stored.iter().filter(|other| same(one, other)).count();
    let main = stored.iter().max_by_key(|stored| count(stored))?;
    let mut left: Vec<Option<Duration>> =
        stored.iter().filter(|other| same(main, other)).map(|stored| stored.remaining).collect();
    // In descending order, the q-th key is the last one that a quorum keeps.
    left.sort_unstable_by_key(|left| std::cmp::Reverse(left.unwrap_or(Duration::MAX)));
    let remaining = left.get(quorum - 1).or(left.first()).copied().flatten();
    let lease = main.lease.clone();
    let kept = count(main);
    Some(Holder {
        name: Arc::clone(name),
        owner: lease.as_ref().map(|lease| Arc::clone(&lease.owner)),
        since: lease.as_ref().and_then(|lease| UNIX_EPOCH.checked_add(lease.since)),
        remaining,
        token: FencingToken::new(lease.as_ref().map_or(0, |lease| lease.token)),
        is_quorum: kept >= quorum,
        kept,
        // The key of a slot has the mark of a waiter from the start.
        is_awaited: Resource::slot_of(name).is_none()
            && stored.iter().any(|other| same(main, other) && other.awaited),
        lingers: main.lingers,
        votes,
        lease,
    })
}

fn vote(key: &Result<Option<&Stored>, Reason>) -> VoteOutcome {
    match key {
        Ok(Some(stored)) => VoteOutcome::Held {
            owner: stored.lease.as_ref().map(|lease| Arc::clone(&lease.owner)),
            remaining: stored.remaining,
        },
        Ok(None) => VoteOutcome::NotCounted(Reason::KeyGone),
        Err(reason) => VoteOutcome::NotCounted(reason.clone()),
    }
}

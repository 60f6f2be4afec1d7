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
    /// The holder's fencing token; zero without fencing, and for a shared lock, whose tokens the nodes
    /// do not keep. After a hand-off within its process, the
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
    /// The owner of an exclusive request that waits, if the name is shared: no further shared lease joins
    /// before it.
    pub waiter: Option<Arc<str>>,
    /// Whether the holder's process may keep the lock after its release, for its next request
    /// ([`LockOptions::linger`](crate::LockOptions::linger)): it may be unused.
    pub lingers: bool,
    /// Number of processes that hold the name, if it is [shared](crate::LockOptions::shared): a
    /// process has one lease for all its holders of one TTL. Zero for an exclusive lock. The other
    /// fields are those of the lease that lasts longest.
    pub readers: usize,
    /// The processes that hold a shared name, those that last longest first: at most 16. Empty for an
    /// exclusive lock.
    pub shared_by: Arc<[SharedHolder]>,
    /// What each node keeps: [`VoteOutcome::Held`] with the key's owner, or
    /// [`Reason::KeyGone`](crate::error::Reason::KeyGone) if there is no key.
    pub votes: Votes,
    pub(super) lease: Option<StoredLease>,
}

/// One process that holds a shared name, in [`Holder`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SharedHolder {
    /// Its [`owner`](crate::RedlockBuilder::owner).
    pub owner: Arc<str>,
    /// Start of its lease, by its own wall clock.
    pub since: Option<SystemTime>,
}

impl SharedHolder {
    fn new(lease: &StoredLease) -> Self {
        let since = UNIX_EPOCH.checked_add(lease.since);
        Self { owner: Arc::clone(&lease.owner), since }
    }
}

impl Holder {
    /// Returns whether the name is shared ([`LockOptions::shared`](crate::LockOptions::shared)).
    pub fn is_shared(&self) -> bool {
        self.readers > 0
    }
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
            .field("waiter", &self.waiter)
            .field("lingers", &self.lingers)
            .field("readers", &self.readers)
            .field("shared_by", &self.shared_by)
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
    // one lease; and so do all leases that share the name.
    let key_of = |stored: &Stored| match stored.sharing {
        0 => (false, stored.lease.as_ref().map(|lease| lease.nonce)),
        _ => (true, None),
    };
    let same = |a: &Stored, b: &Stored| key_of(a) == key_of(b);
    let count = |one: &Stored| stored.iter().filter(|other| same(one, other)).count();
    let main = stored.iter().max_by_key(|stored| count(stored))?;
    let mut left: Vec<Option<Duration>> =
        stored.iter().filter(|other| same(main, other)).map(|stored| stored.remaining).collect();
    // In descending order, the q-th key is the last one that a quorum keeps.
    left.sort_unstable_by_key(|left| std::cmp::Reverse(left.unwrap_or(Duration::MAX)));
    let remaining = left.get(quorum - 1).or(left.first()).copied().flatten();
    let kept = count(main);
    let shared: Vec<&Stored> = stored.iter().copied().filter(|key| key.sharing > 0).collect();
    let readers = (main.sharing > 0).then(|| Readers::new(&shared, quorum));
    let lease = match &readers {
        Some(readers) => readers.leases.first().cloned(),
        None => main.lease.clone(),
    };
    // A node that granted after the token was raised keeps the smaller one that was proposed.
    let kept_by = |nonce| {
        stored.iter().filter_map(|key| key.lease.as_ref()).filter(move |kept| kept.nonce == nonce)
    };
    let token = lease
        .as_ref()
        .and_then(|lease| kept_by(lease.nonce).map(|kept| kept.token).max())
        .unwrap_or(0);
    let shared_by = readers.as_ref().map_or(&[][..], |readers| &readers.leases);
    Some(Holder {
        name: Arc::clone(name),
        owner: lease.as_ref().map(|lease| Arc::clone(&lease.owner)),
        since: lease.as_ref().and_then(|lease| UNIX_EPOCH.checked_add(lease.since)),
        remaining,
        token: FencingToken::new(token),
        is_quorum: readers.as_ref().map_or(kept >= quorum, |readers| readers.is_quorum),
        kept,
        // The key of a slot has the mark of a waiter from the start.
        is_awaited: Resource::slot_of(name).is_none()
            && stored.iter().any(|other| same(main, other) && other.awaited),
        waiter: shared.iter().find_map(|key| Some(Arc::clone(&key.waiter.as_ref()?.owner))),
        lingers: main.lingers,
        readers: readers.as_ref().map_or(0, |readers| readers.count),
        shared_by: shared_by.iter().map(SharedHolder::new).collect(),
        votes,
        lease,
    })
}

/// The leases that share a name.
struct Readers {
    /// Those that a quorum of nodes lists; if there is none, all that a node lists.
    leases: Vec<StoredLease>,
    /// Number of leases, also of those that are not listed.
    count: usize,
    /// Whether a quorum of nodes keeps one of them.
    is_quorum: bool,
}

impl Readers {
    /// Counts the leases on the nodes on which the name is shared: at least one.
    fn new(keys: &[&Stored], quorum: usize) -> Self {
        let mut listed: Vec<(&StoredLease, usize)> = Vec::new();
        for lease in keys.iter().flat_map(|key| &key.readers) {
            match listed.iter_mut().find(|(known, _)| known.nonce == lease.nonce) {
                Some((_, nodes)) => *nodes += 1,
                None => listed.push((lease, 1)),
            }
        }
        let has_quorum = listed.iter().any(|(_, nodes)| *nodes >= quorum);
        listed.retain(|(_, nodes)| *nodes >= quorum || !has_quorum);
        let mut leases: Vec<_> = listed.into_iter().map(|(lease, _)| lease.clone()).collect();
        let mut count = leases.len();
        let is_partial = keys.iter().any(|key| key.sharing > key.readers.len());
        if is_partial {
            // The q-th greatest number is the last one that a quorum exceeds or has.
            let mut counts: Vec<_> = keys.iter().map(|key| key.sharing).collect();
            counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
            count = count.max(counts.get(quorum - 1).or(counts.first()).copied().unwrap_or(0));
        }
        leases.truncate(Stored::MAX_READERS);
        Self { leases, count, is_quorum: has_quorum || (is_partial && keys.len() >= quorum) }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Nonce;

    /// A key with leases of these numbers, of `sharing` in all.
    fn key(sharing: usize, leases: &[u8]) -> Stored {
        let lease = |number: &u8| {
            let owner = format!("reader {number}").into();
            StoredLease::new(Nonce::from_bytes([*number; 16]), 0, Duration::ZERO, owner)
        };
        let leases: Vec<_> = leases.iter().map(lease).collect();
        let remaining = Some(Duration::from_secs(1));
        Stored::new(leases.first().cloned(), remaining).sharing(sharing).readers(leases)
    }

    fn found(keys: &[Stored], quorum: usize) -> (usize, bool, Vec<String>) {
        let readers = Readers::new(&keys.iter().collect::<Vec<_>>(), quorum);
        let owners = readers.leases.iter().map(|lease| lease.owner.to_string()).collect();
        (readers.count, readers.is_quorum, owners)
    }

    #[test]
    fn token_is_the_one_that_was_raised() {
        let redlock = crate::Redlock::embedded();
        let key = |number: u8, token| {
            let nonce = Nonce::from_bytes([number; 16]);
            let lease = StoredLease::new(nonce, token, Duration::ZERO, "a".into());
            Stored::new(Some(lease), Some(Duration::from_secs(1)))
        };
        let [late, raised, other] = [key(1, 7), key(1, 9), key(2, 11)];
        let keys = [Ok(Some(&late)), Ok(Some(&other)), Ok(Some(&raised))];

        let found = holder(redlock.client(), &"name".into(), &keys).unwrap();

        assert_eq!(found.token.get(), 9);
    }

    #[test]
    fn readers_are_those_that_a_quorum_lists() {
        let keys = [key(2, &[1, 2]), key(3, &[2, 1, 3]), key(1, &[4])];

        assert_eq!(found(&keys, 2), (2, true, vec!["reader 1".into(), "reader 2".into()]));
        assert_eq!(found(&keys[2..], 2), (1, false, vec!["reader 4".into()]));
    }

    #[test]
    fn leases_of_attempts_are_a_minority() {
        let keys = [key(1, &[1]), key(1, &[2]), key(1, &[3])];

        let (count, is_quorum, _) = found(&keys, 2);

        assert_eq!((count, is_quorum), (3, false));
    }

    #[test]
    fn readers_beyond_the_lists_are_counted() {
        let numbers: Vec<u8> = (0..20).collect();
        let keys = [key(19, &numbers[..16]), key(20, &numbers[4..]), key(18, &numbers[2..18])];

        let (count, is_quorum, owners) = found(&keys, 2);

        assert_eq!((count, is_quorum), (19, true));
        assert_eq!(owners.len(), 16);
    }
}

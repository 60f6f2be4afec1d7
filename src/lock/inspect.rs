use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{
    ask::{Answers, ask},
    core::Core,
};
use crate::{
    error::{LockError, Reason, VoteOutcome, Votes},
    protocol::{Answer, Op, Stored, StoredLease, rules},
    resource::Resource,
    token::FencingToken,
};

/// Who holds a name, as the nodes tell.
#[derive(Clone)]
#[non_exhaustive]
pub struct Holder {
    /// The name.
    pub name: Arc<str>,
    /// Who, as the holder calls itself; `None` for a key that this crate did not write.
    pub owner: Option<Arc<str>>,
    /// Since when, by the holder's wall clock.
    pub since: Option<SystemTime>,
    /// For how long still if nobody renews: until fewer than a quorum of nodes keep the key.
    /// `None` where that is never, as the key has no TTL.
    pub remaining: Option<Duration>,
    /// The holder's fencing token; zero without fencing. Where the lock was handed on within its
    /// process, it is that of an earlier holder, as the nodes are not told.
    pub token: FencingToken,
    /// Whether a quorum of nodes keeps the key. If not, it is what an attempt under way, or a
    /// holder that crashed, left behind.
    pub is_quorum: bool,
    /// What each node keeps: [`VoteOutcome::Held`] with whose key it is, or
    /// [`Reason::KeyGone`](crate::error::Reason::KeyGone) where there is none.
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
            .field("votes", &self.votes)
            .finish_non_exhaustive()
    }
}

pub(crate) async fn inspect(core: &Core, resource: &Resource) -> Result<Option<Holder>, LockError> {
    for name in resource.shared_names() {
        let found = inspect_name(core, name).await;
        if let Some(holder) = found.map_err(|votes| LockError::NoQuorum { votes })? {
            return Ok(Some(holder));
        }
    }
    Ok(None)
}

/// Returns who holds one name; the votes where too few nodes answered.
pub(super) async fn inspect_name(core: &Core, name: &Arc<str>) -> Result<Option<Holder>, Votes> {
    let op = Op::Inspect(Arc::clone(name));
    holder(core, name, &ask(core, &op, |_| false).await)
}

/// What the nodes keep under a name.
fn holder(core: &Core, name: &Arc<str>, answers: &Answers) -> Result<Option<Holder>, Votes> {
    let quorum = rules::quorum(answers.len());
    let votes = core.votes(answers.iter().map(shown).collect());
    if answers.iter().filter(|answer| answer.is_ok()).count() < quorum {
        return Err(votes);
    }
    let stored: Vec<&Stored> = answers
        .iter()
        .filter_map(|answer| match answer {
            Ok(Answer::Inspected(stored)) => stored.as_deref(),
            _ => None,
        })
        .collect();
    // Two leases of one holder differ by their nonce, and foreign keys are all alike.
    let same = |a: &Stored, b: &Stored| {
        a.lease.as_ref().map(|lease| lease.nonce) == b.lease.as_ref().map(|lease| lease.nonce)
    };
    let of = |one: &Stored| stored.iter().filter(|other| same(one, other)).count();
    let Some(main) = stored.iter().max_by_key(|stored| of(stored)) else { return Ok(None) };
    let mut left: Vec<Option<Duration>> =
        stored.iter().filter(|other| same(main, other)).map(|stored| stored.remaining).collect();
    // The latest first: when the q-th largest is over, so is the quorum.
    left.sort_unstable_by_key(|left| std::cmp::Reverse(left.unwrap_or(Duration::MAX)));
    let remaining = left.get(quorum - 1).or(left.first()).copied().flatten();
    let lease = main.lease.clone();
    Ok(Some(Holder {
        name: Arc::clone(name),
        owner: lease.as_ref().map(|lease| Arc::clone(&lease.owner)),
        since: lease.as_ref().and_then(|lease| UNIX_EPOCH.checked_add(lease.since)),
        remaining,
        token: FencingToken::new(lease.as_ref().map_or(0, |lease| lease.token)),
        is_quorum: of(main) >= quorum,
        votes,
        lease,
    }))
}

fn shown(answer: &Result<Answer, Reason>) -> VoteOutcome {
    match answer {
        Ok(Answer::Inspected(Some(stored))) => VoteOutcome::Held {
            owner: stored.lease.as_ref().map(|lease| Arc::clone(&lease.owner)),
            remaining: stored.remaining,
        },
        Ok(Answer::Inspected(None)) => VoteOutcome::NotCounted(Reason::KeyGone),
        Ok(_) => VoteOutcome::NotCounted(Reason::Protocol("not what was asked for".into())),
        Err(reason) => VoteOutcome::NotCounted(reason.clone()),
    }
}

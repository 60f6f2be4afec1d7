//! The locks and requests of this process at one moment.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{core::Core, obligations::Owed};
use crate::{FencingToken, Resource, sync::atomic::Ordering};

/// The locks and requests of this process at one moment. Those of other processes are on the
/// servers: see [`Redlock::locks`](crate::Redlock::locks).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The locks that are held here, sorted by their names.
    pub locks: Vec<LocalLock>,
    /// Locks without a holder that this process keeps for its next request
    /// ([`LockOptions::linger`](crate::LockOptions::linger)), sorted by their names.
    pub lingering: Vec<Resource>,
    /// The names that requests wait for, sorted.
    pub waiting: Vec<WaitingName>,
    /// Number of releases on their way to a node, without the unacknowledged ones.
    pub releasing: usize,
    /// For each node, the number of releases and other ends that it did not acknowledge, and that are
    /// repeated until it does, or no client can depend on them any more.
    pub unacknowledged: Vec<usize>,
    /// Ends of work that too few nodes have stored so far, the oldest first.
    pub owed: Vec<Owed>,
}

/// A lock that this process holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalLock {
    /// Its names.
    pub resource: Resource,
    /// Whether it is shared ([`LockOptions::shared`](crate::LockOptions::shared)): other processes may
    /// hold it as well, and several requests of this one.
    pub is_shared: bool,
    /// Its fencing token; zero without fencing.
    pub token: FencingToken,
    /// The time of the lease's request, by this process's wall clock. After a hand-off within the
    /// process, the time of the first holder's request.
    pub since: SystemTime,
    /// Remaining validity, unless it is renewed.
    pub remaining: Duration,
}

/// A name that requests of this process wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingName {
    /// The name.
    pub name: Arc<str>,
    /// Number of requests, without the one that holds it. One that is asking the nodes for the
    /// first time is among them.
    pub requests: usize,
    /// The age of the oldest request.
    pub oldest: Duration,
}

impl Snapshot {
    /// Adds what another set of the manager has.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.locks.extend(other.locks);
        self.locks.sort_unstable_by(|a, b| a.resource.names().cmp(b.resource.names()));
        self.lingering.extend(other.lingering);
        self.lingering.sort_unstable_by(|a, b| a.names().cmp(b.names()));
        self.waiting.extend(other.waiting);
        self.waiting.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        self.releasing += other.releasing;
        self.unacknowledged.extend(other.unacknowledged);
        self.owed.extend(other.owed);
        self.owed.sort_by_key(|owed| std::cmp::Reverse(owed.age));
        self
    }
}

pub(super) fn snapshot(core: &Core) -> Snapshot {
    let (held, mut waiting) = core.queue.contents(core.client.clock().now());
    let held: Vec<_> = held.iter().filter_map(std::sync::Weak::upgrade).collect();
    let lingering = held.iter().filter(|lease| lease.is_lingering());
    let mut lingering: Vec<_> = lingering.map(|lease| lease.resource().clone()).collect();
    let mut locks: Vec<_> = held
        .iter()
        .filter_map(|lease| Some((lease, lease.present()?)))
        .filter(|(_, grant)| !grant.remaining.is_zero())
        .map(|(lease, grant)| LocalLock {
            resource: lease.resource().clone(),
            is_shared: lease.is_shared(),
            token: grant.token,
            since: UNIX_EPOCH.checked_add(lease.id().since()).unwrap_or(UNIX_EPOCH),
            remaining: grant.remaining,
        })
        .collect();
    locks.sort_unstable_by(|a, b| a.resource.names().cmp(b.resource.names()));
    // A set of names is one lock.
    locks.dedup_by(|a, b| a.resource == b.resource);
    lingering.sort_unstable_by(|a, b| a.names().cmp(b.names()));
    lingering.dedup();
    waiting.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Snapshot {
        locks,
        lingering,
        waiting,
        releasing: core.client.releasing.load(Ordering::Acquire),
        unacknowledged: (0..core.client.nodes.len())
            .map(|node| core.client.repeaters.unacknowledged(node))
            .collect(),
        owed: core.client.owed.list_all(),
    }
}

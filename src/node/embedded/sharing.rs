//! The keys that several leases share, on one embedded node.

use std::{collections::HashMap, sync::Arc};

use crate::{
    protocol::{HeldAnswer, LeaseId, Stored, StoredLease, WAIT_MARK_TTL},
    time::Timestamp,
};

/// A notification that an operation caused.
#[derive(Debug)]
pub(super) enum Notice {
    /// A name with waiters was released.
    Freed(Arc<str>),
    /// A client was refused a name whose lease its owner may keep idle.
    Asked { owner: Arc<str>, name: Arc<str> },
    /// No exclusive request waits any more for a name of which its owner has a shared lease.
    Withdrawn { owner: Arc<str>, name: Arc<str> },
}

/// Number of keys after which the first sweep removes those that have expired.
pub(super) const FIRST_SWEEP: usize = 1024;

/// The names whose leases are shared. A lease that has ended is removed when its key is used next.
#[derive(Debug)]
pub(super) struct SharedKeys {
    keys: HashMap<Arc<str>, SharedKey>,
    /// Number of keys at which those without a lease and a mark are removed.
    sweep_at: usize,
}

impl Default for SharedKeys {
    fn default() -> Self {
        Self { keys: HashMap::new(), sweep_at: FIRST_SWEEP }
    }
}

#[derive(Debug)]
struct SharedKey {
    /// The leases, and when each ends.
    leases: Vec<(StoredLease, Timestamp)>,
    /// The exclusive requests that wait, and when the mark of each ends. While there is one, no lease may
    /// join.
    marks: Vec<(StoredLease, Timestamp)>,
}

impl SharedKey {
    fn longest(&self) -> Option<&(StoredLease, Timestamp)> {
        self.leases.iter().max_by_key(|(_, ends)| *ends)
    }

    fn is_held(&self, now: Timestamp) -> bool {
        self.leases.iter().any(|(_, ends)| now < *ends)
    }

    /// Returns the mark that lasts longest.
    fn mark(&self) -> Option<&(StoredLease, Timestamp)> {
        self.marks.iter().max_by_key(|(_, ends)| *ends)
    }

    fn held(&self, fence: u64, now: Timestamp) -> HeldAnswer {
        let (longest, mark) = (self.longest(), self.mark());
        let ends = longest.or(mark).map(|(_, ends)| ends.saturating_duration_since(now));
        let owner = |(lease, _): &(StoredLease, Timestamp)| Arc::clone(&lease.owner);
        let held = HeldAnswer::new(longest.map(owner), ends, fence);
        held.shared(true).readers(self.leases.len()).waiter(mark.map(owner))
    }

    fn is_empty(&self) -> bool {
        self.leases.is_empty() && self.marks.is_empty()
    }

    fn position(&self, lease: &LeaseId) -> Option<usize> {
        self.leases.iter().position(|(known, _)| known.nonce == lease.nonce())
    }
}

impl SharedKeys {
    /// Returns the key without the leases and marks that have ended; removes it if nothing is left.
    fn current(&mut self, name: &str, now: Timestamp) -> Option<&mut SharedKey> {
        let key = self.keys.get_mut(name)?;
        key.leases.retain(|(_, ends)| now < *ends);
        key.marks.retain(|(_, ends)| now < *ends);
        if key.is_empty() {
            self.keys.remove(name);
        }
        self.keys.get_mut(name)
    }

    /// Returns the answer for an exclusive request; `None` if the key is free for it. One that waits
    /// leaves a mark.
    pub(super) fn held(
        &mut self,
        name: &Arc<str>,
        fence: u64,
        now: Timestamp,
        waiter: Option<&LeaseId>,
        notices: &mut Vec<Notice>,
    ) -> Option<HeldAnswer> {
        let key = self.current(name, now)?;
        if key.leases.is_empty() {
            return None;
        }
        if let Some(waiter) = waiter {
            key.marks.retain(|(known, _)| known.nonce != waiter.nonce());
            key.marks.push((stored(waiter), now + WAIT_MARK_TTL));
            // Each time, as an earlier message may be lost.
            for (lease, _) in &key.leases {
                let (owner, name) = (Arc::clone(&lease.owner), Arc::clone(name));
                notices.push(Notice::Asked { owner, name });
            }
        }
        Some(key.held(fence, now))
    }

    /// Removes a key without leases, which an exclusive lease gets. Returns whether requests may wait that
    /// it refused.
    pub(super) fn end(&mut self, name: &str) -> bool {
        self.keys.remove(name).is_some()
    }

    /// Removes the mark of an exclusive request. Returns whether it was there.
    pub(super) fn withdraw(
        &mut self,
        name: &Arc<str>,
        waiter: &LeaseId,
        now: Timestamp,
        notices: &mut Vec<Notice>,
    ) -> bool {
        let Some(key) = self.current(name, now) else { return false };
        let before = key.marks.len();
        key.marks.retain(|(known, _)| known.nonce != waiter.nonce());
        let existed = key.marks.len() < before;
        if existed && key.marks.is_empty() {
            notices.push(Notice::Freed(Arc::clone(name)));
            for (lease, _) in &key.leases {
                let (owner, name) = (Arc::clone(&lease.owner), Arc::clone(name));
                notices.push(Notice::Withdrawn { owner, name });
            }
        }
        if key.is_empty() {
            self.keys.remove(name);
        }
        existed
    }

    /// Returns whether an exclusive request waits for a key.
    pub(super) fn is_marked(&self, name: &str, now: Timestamp) -> bool {
        let key = self.keys.get(name);
        key.is_some_and(|key| key.marks.iter().any(|(_, ends)| now < *ends))
    }

    /// Returns the answer for an exclusive lease of which the key is renewed.
    pub(super) fn taken(&mut self, name: &str, now: Timestamp) -> Option<HeldAnswer> {
        let key = self.current(name, now)?;
        (!key.leases.is_empty()).then(|| key.held(0, now))
    }

    /// Returns the answer for a shared request that may not join now.
    pub(super) fn refuses(
        &mut self,
        name: &str,
        lease: &LeaseId,
        fence: u64,
        now: Timestamp,
    ) -> Option<HeldAnswer> {
        let key = self.current(name, now)?;
        let is_refused = !key.marks.is_empty() && key.position(lease).is_none();
        is_refused.then(|| key.held(fence, now))
    }

    /// Stores a lease, or renews it.
    pub(super) fn store(
        &mut self,
        name: &Arc<str>,
        lease: &LeaseId,
        now: Timestamp,
        ends: Timestamp,
    ) {
        if self.keys.len() >= self.sweep_at {
            let is_kept = |(_, ends): &(StoredLease, Timestamp)| now < *ends;
            self.keys.retain(|_, key| key.leases.iter().chain(&key.marks).any(is_kept));
            self.sweep_at = FIRST_SWEEP.max(2 * self.keys.len());
        }
        let free = || SharedKey { leases: Vec::new(), marks: Vec::new() };
        let key = self.keys.entry(Arc::clone(name)).or_insert_with(free);
        let at = key.position(lease);
        if let Some(at) = at {
            // An acquire that is repeated after a renewal must not shorten the lease.
            key.leases[at].1 = ends.max(key.leases[at].1);
        } else {
            key.leases.push((stored(lease), ends));
        }
    }

    pub(super) fn has(&mut self, name: &str, lease: &LeaseId, now: Timestamp) -> bool {
        self.current(name, now).is_some_and(|key| key.position(lease).is_some())
    }

    /// Removes a lease. Returns whether it was there, and whether an exclusive request waits.
    pub(super) fn remove(
        &mut self,
        name: &Arc<str>,
        lease: &LeaseId,
        now: Timestamp,
        notices: &mut Vec<Notice>,
    ) -> (bool, bool) {
        let Some(key) = self.current(name, now) else { return (false, false) };
        let at = key.position(lease);
        // The release of a refused attempt wakes no request.
        let Some(at) = at else { return (false, false) };
        key.leases.swap_remove(at);
        self.removed(name, now, notices)
    }

    /// Removes all leases of a name. Returns whether there was one, and whether an exclusive request
    /// waits.
    pub(super) fn remove_all(
        &mut self,
        name: &Arc<str>,
        now: Timestamp,
        notices: &mut Vec<Notice>,
    ) -> (bool, bool) {
        let Some(key) = self.current(name, now) else { return (false, false) };
        if key.leases.is_empty() {
            return (false, false);
        }
        key.leases.clear();
        self.removed(name, now, notices)
    }

    /// Removes a key without a lease and a mark, and notifies the exclusive requests that wait for one
    /// without a lease. Returns that leases were removed, and whether an exclusive request waits.
    fn removed(
        &mut self,
        name: &Arc<str>,
        now: Timestamp,
        notices: &mut Vec<Notice>,
    ) -> (bool, bool) {
        let Some(key) = self.keys.get(name) else { return (true, false) };
        let is_last = key.leases.is_empty();
        let is_marked = key.marks.iter().any(|(_, ends)| now < *ends);
        if is_last && is_marked {
            notices.push(Notice::Freed(Arc::clone(name)));
        } else if is_last {
            self.keys.remove(name);
        }
        (true, is_marked)
    }

    pub(super) fn inspect(&self, name: &str, now: Timestamp) -> Option<Stored> {
        let key = self.keys.get(name)?;
        let mut current: Vec<_> = key.leases.iter().filter(|(_, ends)| now < *ends).collect();
        current.sort_by_key(|(_, ends)| std::cmp::Reverse(*ends));
        let (lease, ends) = current.first()?;
        let stored = Stored::new(Some(lease.clone()), Some(ends.saturating_duration_since(now)));
        let readers = current.iter().take(Stored::MAX_READERS).map(|(lease, _)| lease.clone());
        let stored = stored.sharing(current.len()).readers(readers.collect());
        let marks = key.marks.iter().filter(|(_, ends)| now < *ends);
        let waiter = marks.max_by_key(|(_, ends)| *ends).map(|(waiter, _)| waiter.clone());
        Some(stored.awaited(waiter.is_some()).waiter(waiter))
    }

    /// Returns the names with leases.
    pub(super) fn names(&self, now: Timestamp) -> impl Iterator<Item = &Arc<str>> {
        self.keys.iter().filter(move |(_, key)| key.is_held(now)).map(|(name, _)| name)
    }
}

/// Returns a lease or a mark, as it is stored: without a token, so that it stays the same.
fn stored(lease: &LeaseId) -> StoredLease {
    StoredLease::new(lease.nonce(), 0, lease.since(), Arc::clone(lease.owner()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{protocol::Nonce, resource::Resource};

    #[test]
    fn keys_that_have_ended_are_removed() {
        let mut keys = SharedKeys::default();
        for second in 0..10_000 {
            let now = Timestamp::ZERO + Duration::from_secs(second);
            let resource = Resource::try_from(second.to_string()).unwrap();
            let name = Arc::clone(&resource.shared_names()[0]);
            let nonce = Nonce::from_bytes(u128::from(second).to_be_bytes());
            let lease = LeaseId::new(resource, nonce, "p".into(), Duration::ZERO).shared(true);
            keys.store(&name, &lease, now, now + Duration::from_secs(10));
            assert!(
                keys.held(&name, 0, now, Some(&lease), &mut Vec::new()).is_some(),
                "it leaves a mark"
            );
        }
        assert!(keys.keys.len() <= 2 * FIRST_SWEEP, "{} keys", keys.keys.len());
    }
}

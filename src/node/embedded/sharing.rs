//! The keys that several leases share, on one embedded node.

use std::{collections::HashMap, sync::Arc, time::Duration};

use super::store::{FIRST_SWEEP, Notice};
use crate::{
    protocol::{HeldAnswer, LeaseId, Stored, StoredLease},
    time::Timestamp,
};

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
    /// Until when no lease may join, because an exclusive request waits.
    marked_until: Timestamp,
}

/// Time for which an exclusive request that waits keeps further leases out, unless it is repeated.
const MARK: Duration = Duration::from_secs(2);

impl SharedKey {
    fn longest(&self) -> Option<&(StoredLease, Timestamp)> {
        self.leases.iter().max_by_key(|(_, ends)| *ends)
    }

    fn is_held(&self, now: Timestamp) -> bool {
        self.leases.iter().any(|(_, ends)| now < *ends)
    }

    fn held(&self, fence: u64, now: Timestamp) -> HeldAnswer {
        let longest = self.longest();
        let ends = longest.map_or(self.marked_until, |(_, ends)| *ends);
        let owner = longest.map(|(lease, _)| Arc::clone(&lease.owner));
        let held = HeldAnswer::new(owner, Some(ends.saturating_duration_since(now)), fence);
        held.shared(true).readers(self.leases.len())
    }

    fn position(&self, lease: &LeaseId) -> Option<usize> {
        self.leases.iter().position(|(known, _)| known.nonce == lease.nonce())
    }
}

impl SharedKeys {
    /// Returns the key without the leases that have ended; removes it if nothing is left.
    fn current(&mut self, name: &str, now: Timestamp) -> Option<&mut SharedKey> {
        let key = self.keys.get_mut(name)?;
        key.leases.retain(|(_, ends)| now < *ends);
        if key.leases.is_empty() && key.marked_until <= now {
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
        (waits, notices): (bool, &mut Vec<Notice>),
    ) -> Option<HeldAnswer> {
        let key = self.current(name, now)?;
        if key.leases.is_empty() {
            self.keys.remove(name);
            return None;
        }
        if waits {
            key.marked_until = now + MARK;
            // Each time, as an earlier message may be lost.
            for (lease, _) in &key.leases {
                let (owner, name) = (Arc::clone(&lease.owner), Arc::clone(name));
                notices.push(Notice::Asked { owner, name });
            }
        }
        Some(key.held(fence, now))
    }

    /// Returns whether an exclusive request waits for a key.
    pub(super) fn is_marked(&self, name: &str, now: Timestamp) -> bool {
        self.keys.get(name).is_some_and(|key| now < key.marked_until)
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
        let is_marked = now < key.marked_until && key.position(lease).is_none();
        is_marked.then(|| key.held(fence, now))
    }

    /// Stores a lease, or renews it.
    pub(super) fn store(
        &mut self,
        name: &Arc<str>,
        lease: &LeaseId,
        (now, ends): (Timestamp, Timestamp),
    ) {
        if self.keys.len() >= self.sweep_at {
            self.keys.retain(|_, key| now < key.marked_until || key.is_held(now));
            self.sweep_at = FIRST_SWEEP.max(2 * self.keys.len());
        }
        let free = || SharedKey { leases: Vec::new(), marked_until: Timestamp::ZERO };
        let key = self.keys.entry(Arc::clone(name)).or_insert_with(free);
        let at = key.position(lease);
        if let Some(at) = at {
            // An acquire that is repeated after a renewal must not shorten the lease.
            key.leases[at].1 = ends.max(key.leases[at].1);
        } else {
            let owner = Arc::clone(lease.owner());
            key.leases.push((StoredLease::new(lease.nonce(), 0, lease.since(), owner), ends));
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
        // The release of a refused attempt wakes nobody.
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
        let (is_marked, is_last) = (now < key.marked_until, key.leases.is_empty());
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
        Some(stored.awaited(now < key.marked_until))
    }

    /// Returns the names with leases.
    pub(super) fn names(&self, now: Timestamp) -> impl Iterator<Item = &Arc<str>> {
        self.keys.iter().filter(move |(_, key)| key.is_held(now)).map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
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
            keys.store(&name, &lease, (now, now + Duration::from_secs(10)));
            assert!(
                keys.held(&name, 0, now, (true, &mut Vec::new())).is_some(),
                "it leaves a mark"
            );
        }
        assert!(keys.keys.len() <= 2 * FIRST_SWEEP, "{} keys", keys.keys.len());
    }
}

//! The state of one embedded node, and how operations change it.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use super::{
    claims::EmbeddedClaims,
    records::EmbeddedRecords,
    sharing::{FIRST_SWEEP, Notice, SharedKeys},
};
use crate::{
    error::Reason,
    protocol::{
        AcquireOp, Answer, ClaimOp, ExtendOp, ExtendedAnswer, ForgetOp, GrantedAnswer, HeldAnswer,
        LeaseId, Op, PrepareOp, RaiseOp, RaisedAnswer, Record, RecordOp, ReleasedAnswer, RepairOp,
        ScanKind, ScanOp, ScannedAnswer, Stored, StoredLease,
    },
    resource::Resource,
    stripe::STRIPES,
    time::{MonotonicWall, Timestamp},
    token::TOKEN_LEAD,
};

/// The keys and fences of an embedded node.
#[derive(Debug)]
pub(super) struct EmbeddedStore {
    keys: HashMap<Arc<str>, StoredKey>,
    shared: SharedKeys,
    fences: Box<[u64]>,
    jobs: EmbeddedClaims,
    records: EmbeddedRecords,
    /// Number of keys at which expired ones are removed.
    sweep_at: usize,
}

#[derive(Debug)]
struct StoredKey {
    lease: StoredLease,
    expires: Timestamp,
    /// Whether a waiter was refused since the key was stored.
    awaited: bool,
    linger: Linger,
}

/// Whether the holder's process may keep the lease after it releases the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linger {
    No,
    /// The process may keep it, and no client was refused the key since.
    May,
    /// The process got a request to release it.
    Asked,
}

impl Default for EmbeddedStore {
    fn default() -> Self {
        Self {
            keys: HashMap::new(),
            shared: SharedKeys::default(),
            fences: vec![0; STRIPES].into_boxed_slice(),
            jobs: EmbeddedClaims::default(),
            records: EmbeddedRecords::default(),
            sweep_at: FIRST_SWEEP,
        }
    }
}

impl StoredKey {
    fn held(&self, fence: u64, now: Timestamp) -> HeldAnswer {
        let owner = Some(Arc::clone(&self.lease.owner));
        let remaining = Some(self.expires.saturating_duration_since(now));
        HeldAnswer::new(owner, remaining, fence).lingering(self.linger != Linger::No)
    }

    fn is_of(&self, lease: &LeaseId, now: Timestamp) -> bool {
        now < self.expires && self.lease.nonce == lease.nonce()
    }
}

impl EmbeddedStore {
    /// Runs an operation as a server does. Adds the notifications for subscribers to `notices`.
    pub(super) fn run(
        &mut self,
        op: &Op,
        clock: &MonotonicWall,
        notices: &mut Vec<Notice>,
    ) -> Result<Answer, Reason> {
        let now = clock.now();
        if op.is_stale(now) {
            return Err(Reason::Stale);
        }
        match op {
            Op::Acquire(op) => {
                check_lead(op.token, now, clock)?;
                Ok(self.acquire(op, now, notices))
            }
            Op::Raise(op) => {
                check_lead(op.token, now, clock)?;
                self.raise(op, now)
            }
            Op::Extend(op) => Ok(self.extend(op, now, notices)),
            Op::Release(lease) => Ok(self.release(lease, now, notices)),
            Op::EndShared(name) => {
                let (existed, awaited) = self.shared.remove_all(name, now, notices);
                Ok(Answer::Released(ReleasedAnswer { existed, awaited }))
            }
            Op::Withdraw(waiter) => {
                let mut existed = false;
                for name in waiter.resource().shared_names() {
                    existed |= self.shared.withdraw(name, waiter, now, notices);
                }
                Ok(Answer::Withdrawn(existed))
            }
            Op::Inspect(names) => {
                let found = names.iter().map(|name| self.inspect(name, now)).collect();
                Ok(Answer::Inspected(found))
            }
            Op::Scan(scan) => Ok(self.scan(scan, now)),
            Op::Prepare(PrepareOp { job, token, .. }) => self.jobs.prepare(job, *token),
            Op::Claim(ClaimOp { job, claim, .. }) => self.jobs.claim(job, claim),
            Op::ForgetJob(op) => self.jobs.forget(op),
            Op::Claims(jobs) => Ok(self.jobs.claims(jobs)),
            Op::ReadRecord(name) => Ok(self.records.read(name, now)),
            Op::Record(RecordOp { lease, record, retain, .. }) => {
                self.record(lease, record, *retain, now)
            }
            Op::Repair(RepairOp { name, record, retain }) => {
                Ok(self.records.repair(name, record, *retain, now))
            }
            Op::Forget(ForgetOp { name, nonce }) => Ok(self.records.forget(name, *nonce, now)),
        }
    }

    /// Creates the store of a node that lost its state: it grants no token up to `floor`, and
    /// counts ticks up to the time of `floor` as started.
    #[cfg(feature = "testing")]
    pub(super) fn above(floor: u64) -> Self {
        let fences = vec![floor; STRIPES].into_boxed_slice();
        Self { fences, jobs: EmbeddedClaims::above(floor), ..Self::default() }
    }

    #[cfg(feature = "testing")]
    pub(super) fn greatest_fence(&self) -> u64 {
        self.fences.iter().copied().max().unwrap_or(0)
    }

    /// Merges the fences, claims and records of another node.
    #[cfg(feature = "testing")]
    pub(super) fn learn(&mut self, other: &Self) {
        for (fence, known) in self.fences.iter_mut().zip(&other.fences) {
            *fence = (*fence).max(*known);
        }
        self.jobs.learn(&other.jobs);
        self.records.learn(&other.records);
    }

    pub(super) fn len(&self, now: Timestamp) -> usize {
        let exclusive = self.keys.values().filter(|key| now < key.expires).count();
        exclusive + self.shared.names(now).count()
    }

    fn acquire(&mut self, op: &AcquireOp, now: Timestamp, notices: &mut Vec<Notice>) -> Answer {
        let AcquireOp { lease, ttl, token, block_end, waiter, .. } = op;
        let (ttl, token, block_end, waiter) = (*ttl, *token, *block_end, waiter.as_deref());
        let fence = self.fence(lease.resource());
        for name in lease.resource().shared_names() {
            let shared = if lease.is_shared() {
                self.shared.refuses(name, lease, fence, now)
            } else {
                self.shared.held(name, fence, now, waiter, notices)
            };
            let held = shared
                .or_else(|| self.held_alone(name, lease, fence, now, waiter.is_some(), notices));
            if let Some(held) = held {
                return Answer::Held(held);
            }
        }
        self.store(lease, ttl, token, now);
        if !lease.is_shared() {
            for name in lease.resource().shared_names() {
                if self.shared.end(name) {
                    self.keys.entry(Arc::clone(name)).and_modify(|key| key.awaited = true);
                }
            }
        }
        let accepted = accepts(lease, token, fence);
        if accepted {
            self.set_fence(lease.resource(), if lease.is_shared() { token } else { block_end });
        }
        Answer::Granted(GrantedAnswer { accepted, fence: if accepted { 0 } else { fence } })
    }

    /// Removes the key of the exclusive lease that becomes this shared one. Shared requests that it
    /// refused may join. Returns whether it was there, and whether requests wait.
    fn end_exclusive(
        &mut self,
        lease: &LeaseId,
        now: Timestamp,
        notices: &mut Vec<Notice>,
    ) -> (bool, bool) {
        let name = &lease.resource().shared_names()[0];
        match self.keys.entry(Arc::clone(name)) {
            Entry::Occupied(key) if key.get().is_of(lease, now) => {
                let awaited = key.remove().awaited;
                if awaited {
                    notices.push(Notice::Freed(Arc::clone(name)));
                }
                (true, awaited)
            }
            _ => (false, false),
        }
    }

    fn raise(&mut self, op: &RaiseOp, now: Timestamp) -> Result<Answer, Reason> {
        let RaiseOp { lease, token, block_end } = op;
        let (token, block_end) = (*token, *block_end);
        let names = lease.resource().shared_names();
        if !names.iter().all(|name| self.is_ours(name, lease, now)) {
            return Err(Reason::KeyGone);
        }
        let fence = self.fence(lease.resource());
        let accepted = accepts(lease, token, fence);
        if accepted {
            for name in names {
                if let Some(key) = self.keys.get_mut(name) {
                    key.lease.token = token;
                }
            }
            self.set_fence(lease.resource(), if lease.is_shared() { token } else { block_end });
        }
        Ok(Answer::Raised(RaisedAnswer { accepted, fence }))
    }

    fn extend(&mut self, op: &ExtendOp, now: Timestamp, notices: &mut Vec<Notice>) -> Answer {
        let ExtendOp { lease, ttl, token, .. } = op;
        if let Some(held) = self.held(lease, 0, now) {
            return held;
        }
        let mut names = lease.resource().shared_names().iter();
        if !lease.is_shared()
            && let Some(held) = names.find_map(|name| self.shared.taken(name, now))
        {
            return Answer::Held(held);
        }
        if lease.is_shared() {
            self.end_exclusive(lease, now, notices);
        }
        self.store(lease, *ttl, *token, now);
        if !lease.is_shared() {
            for name in lease.resource().shared_names() {
                self.shared.end(name);
            }
        }
        let mut names = lease.resource().shared_names().iter();
        let awaited = lease.is_shared() && names.any(|name| self.shared.is_marked(name, now));
        Answer::Extended(ExtendedAnswer { awaited })
    }

    fn release(&mut self, lease: &LeaseId, now: Timestamp, notices: &mut Vec<Notice>) -> Answer {
        let (mut existed, mut awaited) = (true, false);
        if lease.is_shared() {
            let name = &lease.resource().shared_names()[0];
            (existed, awaited) = self.shared.remove(name, lease, now, notices);
            if !existed {
                (existed, awaited) = self.end_exclusive(lease, now, notices);
            }
            return Answer::Released(ReleasedAnswer { existed, awaited });
        }
        for name in lease.resource().shared_names() {
            match self.keys.entry(Arc::clone(name)) {
                Entry::Occupied(key) if key.get().is_of(lease, now) => {
                    if key.remove().awaited && !lease.wakes_none() {
                        awaited = true;
                        notices.push(Notice::Freed(Arc::clone(name)));
                    }
                }
                _ => existed = false,
            }
        }
        Answer::Released(ReleasedAnswer { existed, awaited })
    }

    fn record(
        &mut self,
        lease: &LeaseId,
        record: &Arc<Record>,
        retain: Duration,
        now: Timestamp,
    ) -> Result<Answer, Reason> {
        match lease.resource().shared_names() {
            [name] if self.is_ours(name, lease, now) => {
                Ok(self.records.keep(name, record, retain, now))
            }
            _ => Err(Reason::KeyGone),
        }
    }

    /// Returns the answer if another lease has the key of a name alone. A request that waits is notified of
    /// its release, and the owner of a lease that may linger is asked for it.
    fn held_alone(
        &mut self,
        name: &Arc<str>,
        lease: &LeaseId,
        fence: u64,
        now: Timestamp,
        waits: bool,
        notices: &mut Vec<Notice>,
    ) -> Option<HeldAnswer> {
        let is_other = |key: &&mut StoredKey| now < key.expires && key.lease.nonce != lease.nonce();
        let key = self.keys.get_mut(name).filter(is_other)?;
        let held = key.held(fence, now);
        key.awaited |= waits;
        if key.linger == Linger::May {
            key.linger = Linger::Asked;
            let (owner, name) = (Arc::clone(&key.lease.owner), Arc::clone(name));
            notices.push(Notice::Asked { owner, name });
        }
        Some(held)
    }

    /// Returns the answer if another lease holds one of the keys.
    fn held(&self, lease: &LeaseId, fence: u64, now: Timestamp) -> Option<Answer> {
        let names = lease.resource().shared_names().iter();
        let other = names
            .filter_map(|name| self.keys.get(name))
            .find(|key| now < key.expires && key.lease.nonce != lease.nonce())?;
        Some(Answer::Held(other.held(fence, now)))
    }

    fn is_ours(&mut self, name: &str, lease: &LeaseId, now: Timestamp) -> bool {
        if lease.is_shared() {
            return self.shared.has(name, lease, now);
        }
        self.keys.get(name).is_some_and(|key| key.is_of(lease, now))
    }

    fn inspect(&self, name: &str, now: Timestamp) -> Option<Stored> {
        let key = self.keys.get(name).filter(|key| now < key.expires);
        let stored = |key: &StoredKey| {
            let remaining = key.expires.saturating_duration_since(now);
            Stored::new(Some(key.lease.clone()), Some(remaining))
                .awaited(key.awaited)
                .lingering(key.linger != Linger::No)
        };
        key.map(stored).or_else(|| self.shared.inspect(name, now))
    }

    fn scan(&self, scan: &ScanOp, now: Timestamp) -> Answer {
        Answer::Scanned(match scan.kind {
            ScanKind::Locks => {
                let kept = self.keys.iter().filter(|(_, key)| now < key.expires);
                page(kept.map(|(name, _)| name).chain(self.shared.names(now)), scan)
            }
            ScanKind::Records => page(self.records.names(now), scan),
            ScanKind::Jobs => {
                // One name more than fits on the page shows whether there is a next page.
                let names = self.jobs.names(scan.cursor.as_ref());
                page(names.take(scan.count.max(1) as usize + 1), scan)
            }
        })
    }

    fn store(&mut self, lease: &LeaseId, ttl: Duration, token: u64, now: Timestamp) {
        if lease.is_shared() {
            return self.shared.store(&lease.resource().shared_names()[0], lease, now, now + ttl);
        }
        if self.keys.len() >= self.sweep_at {
            self.keys.retain(|_, key| now < key.expires);
            self.sweep_at = FIRST_SWEEP.max(2 * self.keys.len());
        }
        for name in lease.resource().shared_names() {
            let owner = Arc::clone(lease.owner());
            let stored = StoredLease::new(lease.nonce(), token, lease.since(), owner);
            let entry = self.keys.entry(Arc::clone(name));
            let may_linger = if lease.lingers() { Linger::May } else { Linger::No };
            // A renewal keeps the waiters of the key.
            let (awaited, linger) = match &entry {
                Entry::Occupied(key) if key.get().is_of(lease, now) => {
                    (key.get().awaited, key.get().linger)
                }
                _ => (lease.is_always_awaited(), may_linger),
            };
            entry.insert_entry(StoredKey { lease: stored, expires: now + ttl, awaited, linger });
        }
    }

    fn fence(&self, resource: &Resource) -> u64 {
        resource.stripes().map(|stripe| self.fences[stripe]).max().unwrap_or(0)
    }

    fn set_fence(&mut self, resource: &Resource, fence: u64) {
        for stripe in resource.stripes() {
            self.fences[stripe] = fence;
        }
    }
}

/// Returns the first names after the cursor, which is the last name of the previous page.
fn page<'a>(names: impl Iterator<Item = &'a Arc<str>>, scan: &ScanOp) -> ScannedAnswer {
    let count = usize::try_from(scan.count.max(1)).unwrap_or(usize::MAX);
    let mut page: Vec<_> = names.filter(|name| scan.cursor.as_ref() < Some(name)).collect();
    let next = page.len() > count;
    if next {
        page.select_nth_unstable(count);
        page.truncate(count);
    }
    page.sort_unstable();
    let next = page.last().filter(|_| next).map(|name| Arc::clone(name));
    ScannedAnswer::new(page.into_iter().map(Arc::clone).collect(), next)
}

/// Returns whether a node with this fence accepts the token of a lease.
fn accepts(lease: &LeaseId, token: u64, fence: u64) -> bool {
    token > fence || (lease.is_shared() && token > 0 && token == fence)
}

/// Refuses a token that is too far ahead of the wall clock.
fn check_lead(token: u64, now: Timestamp, clock: &MonotonicWall) -> Result<(), Reason> {
    let is_ahead = |wall: Duration| u128::from(token) > wall.as_micros() + u128::from(TOKEN_LEAD);
    if is_ahead(clock.at_least(now)) && is_ahead(clock.read(now)) {
        return Err(Reason::TokenAhead);
    }
    Ok(())
}

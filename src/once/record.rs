use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::telemetry;
use crate::{
    lock::{
        ActiveLease,
        records::{self, Asked},
    },
    protocol::{Record, StoredLease},
};

/// A record of this lease, made now.
pub(super) fn record(lease: &ActiveLease, is_done: bool, payload: Arc<[u8]>) -> Arc<Record> {
    let (id, now) = (lease.id(), lease.core().clock().wall());
    let token = lease.token().get();
    let stored = StoredLease::new(id.nonce(), token, now, Arc::clone(id.owner()));
    Arc::new(Record::new(is_done, stored, payload))
}

/// How far the work of a key has come, and what is to be done where it is dropped there.
///
/// Before the work has begun, the nodes forget that it was to begin. After that nobody knows how far
/// it came: a record that it has begun stays, and a WARN tells.
pub(super) struct StartedRecord {
    lease: Arc<ActiveLease>,
    begun: Begun,
    /// The nodes keep a record that the work has begun.
    is_kept: bool,
    is_armed: bool,
}

/// Whether the work has begun.
#[derive(Clone, Debug, Default)]
pub(super) struct Begun(Arc<AtomicBool>);

impl Begun {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl StartedRecord {
    /// Nothing is kept of work that has begun.
    pub(super) fn unkept(lease: &Arc<ActiveLease>) -> Self {
        Self { lease: Arc::clone(lease), begun: Begun::default(), is_kept: false, is_armed: true }
    }

    /// Has the nodes keep that the work has begun.
    pub(super) fn set(lease: &Arc<ActiveLease>, hold: Duration) -> (Self, Asked) {
        let record = record(lease, false, Arc::from([]));
        let asked = records::record(lease, &record, hold);
        let mut this = Self::unkept(lease);
        this.is_kept = true;
        (this, asked)
    }

    pub(super) const fn begun(&self) -> &Begun {
        &self.begun
    }

    /// Whether the nodes keep a record that the work has begun.
    pub(super) const fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// The work can be begun again.
    pub(super) fn forget(mut self) {
        self.is_armed = false;
        self.tell();
    }

    /// The nodes' records are left as they are.
    pub(super) fn keep(mut self) {
        self.is_armed = false;
    }

    /// The lock is lost: what has not begun can be begun again.
    pub(super) fn end(self) {
        if self.begun.is_set() { self.keep() } else { self.forget() }
    }

    fn tell(&self) {
        if self.is_kept {
            let name = super::terms::name(self.lease.resource());
            records::forget(self.lease.core(), &name, self.lease.id().nonce());
        }
        self.lease.charge().free();
    }
}

impl Drop for StartedRecord {
    fn drop(&mut self) {
        if !self.is_armed {
            return;
        }
        if self.begun.is_set() {
            telemetry::dropped(self.lease.resource(), self.lease.token().get(), self.is_kept);
        } else {
            self.tell();
        }
    }
}

impl fmt::Debug for StartedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartedRecord")
            .field("lease", &self.lease)
            .field("begun", &self.begun)
            .finish_non_exhaustive()
    }
}

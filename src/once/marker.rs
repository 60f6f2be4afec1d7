use std::{fmt, sync::Arc, time::Duration};

use crate::{
    lock::{
        ActiveLease,
        records::{self, Asked},
    },
    node::{Record, StoredLease},
};

/// A record of this lease, made now.
pub(super) fn record(lease: &ActiveLease, is_done: bool, payload: Arc<[u8]>) -> Arc<Record> {
    let (id, now) = (lease.id(), lease.core().clock().wall());
    let token = lease.token().get();
    let stored = StoredLease::new(id.nonce(), token, now, Arc::clone(id.owner()));
    Arc::new(Record::new(is_done, stored, payload))
}

/// That the work has begun, as the nodes keep it while it runs. Dropped while the lock is valid, it
/// is forgotten; else it stays, as nobody knows what became of the work.
pub(super) struct Marker {
    lease: Arc<ActiveLease>,
    is_armed: bool,
}

impl Marker {
    /// Has the nodes told.
    pub(super) fn set(lease: &Arc<ActiveLease>, hold: Duration) -> (Self, Asked) {
        let record = record(lease, false, Arc::from([]));
        let asked = records::record(lease, &record, hold);
        (Self { lease: Arc::clone(lease), is_armed: true }, asked)
    }

    /// The work is not begun, or can be begun again.
    pub(super) fn forget(mut self) {
        self.tell();
    }

    /// The nodes' records are left as they are.
    pub(super) fn keep(mut self) {
        self.is_armed = false;
    }

    fn tell(&mut self) {
        if std::mem::take(&mut self.is_armed) {
            let name = super::terms::name(self.lease.resource());
            records::forget(self.lease.core(), &name, self.lease.id().nonce());
        }
    }
}

impl Drop for Marker {
    fn drop(&mut self) {
        if self.lease.is_valid() {
            self.tell();
        }
    }
}

impl fmt::Debug for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Marker").field("lease", &self.lease).finish_non_exhaustive()
    }
}

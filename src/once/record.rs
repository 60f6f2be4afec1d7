//! Records of a key on the nodes: that its work has started, and how it ended.

use std::{sync::Arc, time::Duration};

use super::telemetry;
use crate::{
    error::LockError,
    lock::{
        ActiveLease, Lock,
        obligations::OwedEnd,
        records::{self, Asked},
    },
    protocol::{Record, StoredLease},
    sync::atomic::{AtomicBool, Ordering},
};

/// Number of node timeouts for which a request waits until the end of its work is stored.
const STORE_TIMEOUTS: u32 = 10;

/// Time for which a request waits until the end of its work is stored.
pub(super) fn store_time(lease: &ActiveLease) -> Duration {
    lease.client().node_timeout() * STORE_TIMEOUTS
}

/// A new record of this lease.
pub(super) fn new(lease: &ActiveLease, is_done: bool, payload: Arc<[u8]>) -> Arc<Record> {
    let (id, now) = (lease.id(), lease.timers().clock().wall());
    let token = lease.token().get();
    let stored = StoredLease::new(id.nonce(), token, now, Arc::clone(id.owner()));
    Arc::new(Record::new(is_done, stored, payload))
}

/// The record that work has started, and what happens to it when the work is dropped.
///
/// | dropped | the record | |
/// |---|---|---|
/// | before the work starts | is removed | |
/// | while the work runs | stays: the outcome is unknown | a WARN |
/// | while the end of the work is being recorded | is stored in the background | |
/// | later | stays | |
#[derive(Debug)]
pub(super) struct StartedRecord {
    lease: Arc<ActiveLease>,
    /// Set by the work when it starts.
    has_started: Arc<AtomicBool>,
    is_stored: bool,
    /// Time for which it is stored.
    hold: Duration,
    phase: RecordPhase,
}

#[derive(Debug)]
enum RecordPhase {
    /// The work has not ended.
    Open,
    /// The work has ended, and its end is being recorded.
    Ending(Arc<OwedEnd>),
    Settled,
}

impl StartedRecord {
    /// Stores nothing on the nodes.
    pub(super) fn unstored(lease: &Arc<ActiveLease>) -> Self {
        let (lease, phase) = (Arc::clone(lease), RecordPhase::Open);
        Self { lease, has_started: Arc::default(), is_stored: false, hold: Duration::ZERO, phase }
    }

    /// Sends the record to the nodes.
    pub(super) fn send(lease: &Arc<ActiveLease>, hold: Duration) -> (Self, Asked) {
        let sent = records::record(lease, &new(lease, false, Arc::default()), hold);
        let mut this = Self::unstored(lease);
        (this.is_stored, this.hold) = (true, hold);
        (this, sent)
    }

    pub(super) const fn lease(&self) -> &Arc<ActiveLease> {
        &self.lease
    }

    /// Returns the flag that the work sets when it starts.
    pub(super) const fn has_started(&self) -> &Arc<AtomicBool> {
        &self.has_started
    }

    pub(super) const fn is_stored(&self) -> bool {
        self.is_stored
    }

    /// Removes the record: the work can start again.
    pub(super) fn forget(mut self) {
        assert!(matches!(self.phase, RecordPhase::Open), "the record of an end is not removed");
        self.phase = RecordPhase::Settled;
        self.remove();
    }

    /// Leaves the record on the nodes. Returns whether it was stored there.
    pub(super) fn keep(mut self) -> bool {
        self.phase = RecordPhase::Settled;
        self.is_stored
    }

    /// Removes the record after the loss of the lock, unless the work has started.
    pub(super) fn forget_unless_started(self) {
        if self.has_started.load(Ordering::Relaxed) {
            self.keep();
        } else {
            self.forget();
        }
    }

    /// Stores the end of the work on a quorum: that it is done, or that its outcome is unknown. Keeps the
    /// lock until then.
    ///
    /// # Errors
    ///
    /// No quorum has stored it so far, or not before the lock was lost. This process still owes it to the
    /// nodes.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future lets it be stored in the background.
    pub(super) async fn store_end(
        mut self,
        lock: Lock,
        is_done: bool,
        payload: Arc<[u8]>,
        retain: Duration,
    ) -> (Arc<Record>, Result<(), LockError>) {
        assert!(matches!(self.phase, RecordPhase::Open), "work ends once");
        let record = new(&self.lease, is_done, payload);
        let name = super::terms::name(self.lease.resource());
        let owed = OwedEnd::record(Some(lock), &self.lease, &name, &record, retain);
        self.phase = RecordPhase::Ending(Arc::clone(&owed));
        let stored = owed.stored_within(store_time(&self.lease)).await;
        self.phase = RecordPhase::Settled;
        (record, stored)
    }

    fn remove(&self) {
        if self.is_stored {
            let name = super::terms::name(self.lease.resource());
            records::forget(&self.lease, &name, self.hold);
        }
        self.lease.charge().free();
    }
}

impl Drop for StartedRecord {
    fn drop(&mut self) {
        match &self.phase {
            RecordPhase::Open if self.has_started.load(Ordering::Relaxed) => {
                telemetry::dropped(&self.lease, self.is_stored);
            }
            RecordPhase::Open => self.remove(),
            RecordPhase::Ending(owed) => owed.detach(store_time(&self.lease)),
            RecordPhase::Settled => {}
        }
    }
}

//! Records of a key on the nodes: that its work has started, and how it ended.

use std::{future::Future, sync::Arc, time::Duration};

use super::telemetry;
use crate::{
    error::{LockError, Reason},
    lock::{
        ActiveLease,
        records::{self, Asked},
    },
    protocol::{Record, StoredLease},
    sync::atomic::{AtomicBool, Ordering},
};

/// Number of node timeouts after which [`store`] gives up.
const STORE_TIMEOUTS: u32 = 10;

/// A new record of this lease.
pub(super) fn new(lease: &ActiveLease, is_done: bool, payload: Arc<[u8]>) -> Arc<Record> {
    let (id, now) = (lease.id(), lease.timers().clock().wall());
    let token = lease.token().get();
    let stored = StoredLease::new(id.nonce(), token, now, Arc::clone(id.owner()));
    Arc::new(Record::new(is_done, stored, payload))
}

/// The record that work has started, and what happens to it when the work is dropped.
///
/// Before the work starts, dropping this removes the record. After that the outcome is unknown: the
/// record stays, and a WARN is logged.
#[derive(Debug)]
pub(super) struct StartedRecord {
    lease: Arc<ActiveLease>,
    started: StartedFlag,
    is_stored: bool,
    is_armed: bool,
}

/// Whether the work has started.
#[derive(Clone, Debug, Default)]
pub(super) struct StartedFlag(Arc<AtomicBool>);

impl StartedFlag {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl StartedRecord {
    /// Stores nothing on the nodes.
    pub(super) fn unstored(lease: &Arc<ActiveLease>) -> Self {
        let started = StartedFlag::default();
        Self { lease: Arc::clone(lease), started, is_stored: false, is_armed: true }
    }

    /// Sends the record to the nodes.
    pub(super) fn send(lease: &Arc<ActiveLease>, hold: Duration) -> (Self, Asked) {
        let sent = records::record(lease, &new(lease, false, Arc::default()), hold);
        let mut this = Self::unstored(lease);
        this.is_stored = true;
        (this, sent)
    }

    pub(super) const fn flag(&self) -> &StartedFlag {
        &self.started
    }

    pub(super) const fn is_stored(&self) -> bool {
        self.is_stored
    }

    /// Removes the record: the work can start again.
    pub(super) fn forget(mut self) {
        self.is_armed = false;
        self.remove();
    }

    /// Leaves the record on the nodes. Returns whether it was stored there.
    pub(super) fn keep(mut self) -> bool {
        self.is_armed = false;
        self.is_stored
    }

    /// Removes the record after the loss of the lock, unless the work has started.
    pub(super) fn forget_unless_started(self) {
        if self.started.is_set() {
            self.keep();
        } else {
            self.forget();
        }
    }

    fn remove(&self) {
        if self.is_stored {
            let name = super::terms::name(self.lease.resource());
            self.lease.forget_record(&name);
        }
        self.lease.charge().free();
    }
}

impl Drop for StartedRecord {
    fn drop(&mut self) {
        if !self.is_armed {
        } else if self.started.is_set() {
            telemetry::dropped(&self.lease, self.is_stored);
        } else {
            self.remove();
        }
    }
}

/// Stores a record of ended work on a quorum while the lock is valid, for up to ten node timeouts.
///
/// The first round is sent at once, not at the first poll.
pub(super) fn store(
    lease: Arc<ActiveLease>,
    record: Arc<Record>,
    retain: Duration,
) -> impl Future<Output = Result<(), LockError>> + Send + use<> {
    let redlock = lease.redlock();
    let deadline = redlock.now() + redlock.node_timeout() * STORE_TIMEOUTS;
    let send = move |lease: &ActiveLease| {
        lease.is_valid().then(|| records::record(lease, &record, retain))
    };
    let mut round = send(&lease);
    async move {
        // Nothing is sent when the lock is no longer valid.
        while let Some(answers) = round {
            let answers = answers.await;
            if records::is_kept(&answers) {
                return Ok(());
            }
            if !lease.is_valid() {
                break;
            }
            let now = redlock.now();
            if now >= deadline {
                return Err(redlock.no_quorum(&answers));
            }
            // Stores the lock's key again on nodes that lost it.
            if answers.contains(&Err(Reason::KeyGone)) {
                lease.extend();
            }
            redlock.sleep_until(now + redlock.node_timeout() / 2).await;
            round = send(&lease);
        }
        Err(LockError::lost(lease.loss()))
    }
}

/// Logs a WARN if the recording of ended work is dropped before its end.
#[derive(Debug)]
pub(super) struct DropWarning {
    lease: Arc<ActiveLease>,
    is_done: bool,
    is_armed: bool,
}

impl DropWarning {
    /// `is_done`: the work is done; otherwise its outcome is unknown.
    pub(super) fn new(lease: &Arc<ActiveLease>, is_done: bool) -> Self {
        Self { lease: Arc::clone(lease), is_done, is_armed: true }
    }

    pub(super) fn disarm(mut self) {
        self.is_armed = false;
    }
}

impl Drop for DropWarning {
    fn drop(&mut self) {
        if self.is_armed {
            telemetry::recording_dropped(&self.lease, self.is_done);
        }
    }
}

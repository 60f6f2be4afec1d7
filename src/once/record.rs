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
/// | dropped | the record | |
/// |---|---|---|
/// | before the work starts | is removed | |
/// | while the work runs | stays: the outcome is unknown | a WARN |
/// | while the end of the work is being recorded | stays, or is replaced | a WARN |
/// | later | stays | |
#[derive(Debug)]
pub(super) struct StartedRecord {
    lease: Arc<ActiveLease>,
    /// Set by the work when it starts.
    has_started: Arc<AtomicBool>,
    is_stored: bool,
    phase: RecordPhase,
}

#[derive(Debug)]
enum RecordPhase {
    /// The work has not ended.
    Open,
    /// The work has ended, and its end is being recorded: it is done, or its outcome is unknown.
    Ending {
        is_done: bool,
    },
    Settled,
}

impl StartedRecord {
    /// Stores nothing on the nodes.
    pub(super) fn unstored(lease: &Arc<ActiveLease>) -> Self {
        let (lease, phase) = (Arc::clone(lease), RecordPhase::Open);
        Self { lease, has_started: Arc::default(), is_stored: false, phase }
    }

    /// Sends the record to the nodes.
    pub(super) fn send(lease: &Arc<ActiveLease>, hold: Duration) -> (Self, Asked) {
        let sent = records::record(lease, &new(lease, false, Arc::default()), hold);
        let mut this = Self::unstored(lease);
        this.is_stored = true;
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

    /// Stores the end of the work on a quorum: that it is done, or that its outcome is unknown.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the record on the nodes, and logs a WARN.
    pub(super) async fn store_end(
        mut self,
        (is_done, payload): (bool, Arc<[u8]>),
        retain: Duration,
    ) -> (Arc<Record>, Result<(), LockError>) {
        assert!(matches!(self.phase, RecordPhase::Open), "work ends once");
        self.phase = RecordPhase::Ending { is_done };
        let record = new(&self.lease, is_done, payload);
        let stored = store(Arc::clone(&self.lease), Arc::clone(&record), retain).await;
        self.keep();
        (record, stored)
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
        match self.phase {
            RecordPhase::Open if self.has_started.load(Ordering::Relaxed) => {
                telemetry::dropped(&self.lease, self.is_stored);
            }
            RecordPhase::Open => self.remove(),
            RecordPhase::Ending { is_done } => {
                telemetry::recording_dropped(&self.lease, is_done);
            }
            RecordPhase::Settled => {}
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
    let client = Arc::clone(lease.client());
    let deadline = client.now() + client.node_timeout() * STORE_TIMEOUTS;
    let send = move |lease: &ActiveLease| {
        lease.is_valid().then(|| records::record(lease, &record, retain))
    };
    let mut round = send(&lease);
    debug_assert!(!retain.is_zero(), "a server refuses a record without a time");
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
            let now = client.now();
            if now >= deadline {
                return Err(client.no_quorum(&answers));
            }
            // Stores the lock's key again on nodes that lost it.
            if answers.contains(&Err(Reason::KeyGone)) {
                lease.extend();
            }
            client.sleep_until(now + client.node_timeout() / 2).await;
            round = send(&lease);
        }
        Err(LockError::lost(lease.loss()))
    }
}

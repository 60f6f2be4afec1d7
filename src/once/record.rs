//! Records of a key on the nodes: that its work has started, and how it ended.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use super::telemetry;
use crate::{
    error::{LockError, Reason},
    lock::{
        ActiveLease,
        records::{self, Asked, QueryAnswers},
    },
    protocol::{Record, StoredLease},
    sync::atomic::{AtomicBool, Ordering},
    time::{Sleep, Timestamp},
};

/// Number of node timeouts after which a [`Recording`] gives up.
const RECORDING_TIMEOUTS: u32 = 10;

/// A new record of this lease.
pub(super) fn record(lease: &ActiveLease, is_done: bool, payload: Arc<[u8]>) -> Arc<Record> {
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
        let asked = records::record(lease, &record(lease, false, Arc::default()), hold);
        let mut this = Self::unstored(lease);
        this.is_stored = true;
        (this, asked)
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

    /// Leaves the record on the nodes.
    pub(super) fn keep(mut self) {
        self.is_armed = false;
    }

    /// Removes the record after the loss of the lock, unless the work has started.
    pub(super) fn forget_unless_started(self) {
        if self.started.is_set() { self.keep() } else { self.forget() }
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

/// Stores a record of ended work on a quorum while the lock is valid.
///
/// The first round is sent at once, not at the first poll.
#[derive(Debug)]
pub(super) struct Recording {
    lease: Arc<ActiveLease>,
    record: Arc<Record>,
    retain: Duration,
    deadline: Timestamp,
    step: RecordingStep,
}

#[derive(Debug)]
enum RecordingStep {
    /// The lock was no longer valid: nothing is sent.
    Expired,
    Sent(Asked),
    Pausing(Sleep),
}

impl Recording {
    pub(super) fn start(lease: Arc<ActiveLease>, record: Arc<Record>, retain: Duration) -> Self {
        let client = lease.client();
        let deadline = client.now() + client.node_timeout() * RECORDING_TIMEOUTS;
        let mut this = Self { lease, record, retain, deadline, step: RecordingStep::Expired };
        this.send();
        this
    }

    pub(super) const fn record(&self) -> &Arc<Record> {
        &self.record
    }

    pub(super) const fn retain(&self) -> Duration {
        self.retain
    }

    fn send(&mut self) {
        self.step = if self.lease.is_valid() {
            RecordingStep::Sent(records::record(&self.lease, &self.record, self.retain))
        } else {
            RecordingStep::Expired
        };
    }

    /// Pauses after a round without a quorum.
    ///
    /// # Errors
    ///
    /// If the lock is lost, or the deadline has passed.
    fn pause(&mut self, answers: &QueryAnswers) -> Result<(), LockError> {
        let client = self.lease.client();
        if !self.lease.is_valid() {
            return Err(LockError::lost(self.lease.loss()));
        }
        let now = client.now();
        if now >= self.deadline {
            return Err(client.no_quorum(answers));
        }
        // Stores the lock's key again on nodes that lost it.
        if answers.contains(&Err(Reason::KeyGone)) {
            self.lease.extend();
        }
        let until = now + client.node_timeout() / 2;
        self.step = RecordingStep::Pausing(client.sleep_until(until));
        Ok(())
    }
}

impl Future for Recording {
    type Output = Result<(), LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match &mut self.step {
                RecordingStep::Expired => {
                    return Poll::Ready(Err(LockError::lost(self.lease.loss())));
                }
                RecordingStep::Sent(asked) => {
                    let answers = ready!(Pin::new(asked).poll(cx));
                    if records::is_kept(&answers) {
                        return Poll::Ready(Ok(()));
                    }
                    self.pause(&answers)?;
                }
                RecordingStep::Pausing(sleep) => {
                    ready!(Pin::new(sleep).poll(cx));
                    self.send();
                }
            }
        }
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

    pub(super) fn disarm(&mut self) {
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

//! Has a quorum keep how work ended.

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
        records::{self, Answers, Asked},
    },
    protocol::Record,
    time::{Sleep, Timestamp},
};

/// Number of node timeouts after which it gives up.
const TRIED_FOR: u32 = 10;

/// Has a record of work that is done kept by a quorum, while the lock is valid.
///
/// The first round is sent at once, not at the first poll.
#[derive(Debug)]
pub(super) struct Recording {
    lease: Arc<ActiveLease>,
    record: Arc<Record>,
    retain: Duration,
    until: Timestamp,
    step: Step,
}

/// Warns where the recording of work is dropped before it has ended.
#[derive(Debug)]
pub(super) struct DropWarning {
    lease: Arc<ActiveLease>,
    is_done: bool,
    is_armed: bool,
}

impl DropWarning {
    /// `is_done`: it is being recorded that the work is done, and not that its outcome is unknown.
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

#[derive(Debug)]
enum Step {
    /// The lock was over: nothing is sent.
    TooLate,
    Asking(Asked),
    Pausing(Sleep),
}

impl Recording {
    pub(super) fn start(lease: Arc<ActiveLease>, record: Arc<Record>, retain: Duration) -> Self {
        let redlock = lease.redlock();
        let until = redlock.now() + redlock.node_timeout() * TRIED_FOR;
        let mut this = Self { lease, record, retain, until, step: Step::TooLate };
        this.ask();
        this
    }

    pub(super) const fn record(&self) -> &Arc<Record> {
        &self.record
    }

    pub(super) const fn retain(&self) -> Duration {
        self.retain
    }

    fn ask(&mut self) {
        self.step = if self.lease.is_valid() {
            Step::Asking(records::record(&self.lease, &self.record, self.retain))
        } else {
            Step::TooLate
        };
    }

    /// What follows a round without a quorum: a pause, or the end.
    fn after(&mut self, answers: &Answers) -> Result<(), LockError> {
        let redlock = self.lease.redlock();
        if !self.lease.is_valid() {
            return Err(LockError::lost(self.lease.loss()));
        }
        let now = redlock.now();
        if now >= self.until {
            return Err(redlock.no_quorum(answers));
        }
        // Nodes that lost the lock's key are given it again.
        if answers.contains(&Err(Reason::KeyGone)) {
            self.lease.extend();
        }
        let pause = redlock.node_timeout() / 2;
        self.step = Step::Pausing(redlock.sleep_until(now + pause));
        Ok(())
    }
}

impl Future for Recording {
    type Output = Result<(), LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match &mut self.step {
                Step::TooLate => return Poll::Ready(Err(LockError::lost(self.lease.loss()))),
                Step::Asking(asked) => {
                    let answers = ready!(Pin::new(asked).poll(cx));
                    if records::is_kept(&answers) {
                        return Poll::Ready(Ok(()));
                    }
                    self.after(&answers)?;
                }
                Step::Pausing(sleep) => {
                    ready!(Pin::new(sleep).poll(cx));
                    self.ask();
                }
            }
        }
    }
}

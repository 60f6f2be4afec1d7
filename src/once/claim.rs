//! Claims a key: takes its lock, and reads its record.

use std::{future::Future, ops::ControlFlow, sync::Arc, time::Duration};

use super::{
    UnknownOutcome,
    outcome::OnceOutcome,
    record::StartedRecord,
    terms::{self, Terms},
};
use crate::{
    error::LockError,
    lock::{
        ActiveLease, Lock, LockRequest, RecordShare, Redlock,
        records::{self, QueryAnswers},
    },
    quorum::records::RecordStatus,
    resource::Resource,
    time::Timestamp,
};

/// A request for a key, with the settings of its lock and its records.
#[derive(Clone, Debug)]
pub(crate) struct KeyRequest {
    pub(super) redlock: Redlock,
    /// The locked resource: the key with the prefix `once:`.
    pub(super) resource: Result<Resource, LockError>,
    pub(super) lock: LockRequest,
    pub(super) terms: Terms,
    /// The share of its scope, if that is limited.
    pub(super) share: Option<RecordShare>,
}

/// A key that is free, and its lock: the work may start.
#[derive(Debug)]
pub(super) struct ClaimedKey {
    /// Dropped first, so that the record is removed under the lock.
    pub(super) started: StartedRecord,
    pub(super) lock: Lock,
}

impl ClaimedKey {
    fn new(started: StartedRecord, lock: Lock) -> Self {
        assert!(Arc::ptr_eq(started.lease(), lock.lease()), "a record belongs to its lock");
        Self { started, lock }
    }
}

impl KeyRequest {
    pub(super) fn new(redlock: &Redlock, resource: Result<Resource, LockError>) -> Self {
        let redlock = redlock.clone();
        let resource = resource.and_then(|resource| {
            redlock.check_set(&terms::name(&resource))?;
            Ok(resource)
        });
        let lock = redlock.lock_own(resource.clone()).keeps_records().wait(Duration::ZERO);
        Self { redlock, resource, lock, terms: Terms::DEFAULT, share: None }
    }

    /// Checks the key and its terms. Returns the resource.
    pub(super) fn check(&self) -> Result<Resource, LockError> {
        let resource = self.resource.clone()?;
        self.terms.check()?;
        Ok(resource)
    }

    /// Acquires the lock, and reads the record under it until its status is known. Breaks with the outcome of a
    /// request whose work may not start.
    ///
    /// A done record whose payload is not settled counts only under the lock: its writer is then gone.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future removes the record that the work has started, then releases the lock.
    pub(super) async fn claim<T>(
        self,
        is_settled: fn(&[u8]) -> bool,
    ) -> Result<ControlFlow<OnceOutcome<T>, ClaimedKey>, LockError> {
        let Self { redlock, resource, lock, terms, share } = self;
        let (name, started_at) = (terms::name(&resource?), redlock.now());
        if let Some(outcome) = owed(&redlock, &name, is_settled) {
            return Ok(ControlFlow::Break(outcome));
        }
        let lock = match lock.acquire_for_work().await {
            Ok(lock) => lock,
            Err(refusal) if matches!(refusal.root(), LockError::Held { .. }) => {
                let answers = redlock.read_record(&name).await;
                return Ok(ControlFlow::Break(held(&refusal, &answers, is_settled)));
            }
            Err(error) => return Err(error),
        };
        loop {
            let mut answers = redlock.read_record(&name).await;
            if let RecordStatus::Done { record, .. } = records::status(&answers)
                && !is_settled(&record.payload)
            {
                // Of several records, the final one is kept longest.
                answers = redlock.read_all_records(&name).await;
            }
            match records::status(&answers) {
                RecordStatus::Done { record, remaining } => {
                    return Ok(ControlFlow::Break(OnceOutcome::Done { record, remaining }));
                }
                RecordStatus::Unknown { record, remaining, .. } => {
                    let (retry_after, by) =
                        (Some(remaining), Some(Arc::clone(&record.lease.owner)));
                    let busy = OnceOutcome::Busy { retry_after, by, unknown: true };
                    return Ok(ControlFlow::Break(busy));
                }
                RecordStatus::TooFew => {}
                RecordStatus::Nothing => {
                    records::reserve(lock.lease(), share.as_ref())?;
                    let UnknownOutcome::Hold(hold) = terms.unknown else {
                        let started = StartedRecord::unstored(lock.lease());
                        return Ok(ControlFlow::Continue(ClaimedKey::new(started, lock)));
                    };
                    let (started, sent) = StartedRecord::send(lock.lease(), hold);
                    answers = sent.await;
                    let status = records::status(&answers);
                    // A node that did not answer before may know of the end.
                    if let RecordStatus::Done { record, remaining } = status {
                        started.forget();
                        return Ok(ControlFlow::Break(OnceOutcome::Done { record, remaining }));
                    }
                    if records::is_kept(&answers) || !lock.is_valid() {
                        return Ok(ControlFlow::Continue(ClaimedKey::new(started, lock)));
                    }
                    started.forget();
                }
            }
            pause(lock.lease(), &answers, started_at).await?;
        }
    }
}

/// Returns the outcome of a request whose work has ended in this process, while too few nodes have stored that.
fn owed<T>(
    redlock: &Redlock,
    name: &Arc<str>,
    is_settled: fn(&[u8]) -> bool,
) -> Option<OnceOutcome<T>> {
    let (record, remaining) = redlock.owed_record(name)?;
    if !record.is_done {
        let (retry_after, by) = (Some(remaining), Some(Arc::clone(&record.lease.owner)));
        return Some(OnceOutcome::Busy { retry_after, by, unknown: true });
    }
    is_settled(&record.payload).then_some(OnceOutcome::Done { record, remaining })
}

/// Returns the outcome of a request while another holder has the lock.
fn held<T>(
    refusal: &LockError,
    answers: &QueryAnswers,
    is_settled: fn(&[u8]) -> bool,
) -> OnceOutcome<T> {
    match (records::status(answers), refusal.root()) {
        (RecordStatus::Done { record, remaining }, _) if is_settled(&record.payload) => {
            OnceOutcome::Done { record, remaining }
        }
        // Running work has a record too: that it has started.
        (_, LockError::Held { retry_after, owner, .. }) => {
            OnceOutcome::Busy { retry_after: *retry_after, by: owner.clone(), unknown: false }
        }
        _ => OnceOutcome::Busy { retry_after: None, by: None, unknown: false },
    }
}

/// Pauses before the next round, as too few nodes answered or stored the record.
///
/// # Errors
///
/// If the request's wait is over, or the lock is lost.
fn pause(
    lease: &ActiveLease,
    answers: &QueryAnswers,
    started_at: Timestamp,
) -> impl Future<Output = Result<(), LockError>> + Send + use<> {
    let client = lease.client();
    let now = client.now();
    let sleep = if now >= started_at + lease.wait() || !lease.is_valid() {
        Err(client.no_quorum(answers))
    } else {
        Ok(client.sleep_until(now + client.node_timeout() / 2))
    };
    async move {
        sleep?.await;
        Ok(())
    }
}

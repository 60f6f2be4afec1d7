//! Work under the lock of its key, from its start to the record of its end.

use std::{future::Future, pin::pin, sync::Arc};

use super::{
    OnceError,
    claim::{ClaimedKey, KeyRequest, Unclaimed},
    outcome::OnceOutcome,
    record::{self, StartedRecord},
    telemetry,
    terms::Terms,
    work::{Check, WorkVerdict},
};
#[cfg(feature = "http")]
use super::{attached::Attached, work::Unchecked};
use crate::{
    error::LockError,
    guard::{Guarded, Hold, LockContext},
    protocol::Record,
};

/// Runs the work in the caller's task, unless its key is done or busy.
pub(super) async fn run<C, W, Fut, T, E>(
    key: KeyRequest,
    check: C,
    work: W,
) -> Result<OnceOutcome<T>, OnceError<E>>
where
    C: Check<E>,
    W: FnOnce(LockContext) -> Fut,
    Fut: Future<Output = Result<(T, WorkVerdict), E>>,
{
    let terms = key.terms;
    run_by(key, |_| true, |claimed| execute(claimed, terms, check, work)).await
}

/// Runs the work as [`run`] does. If `detached`, and the caller drops the future while the work runs, it
/// continues as a task.
#[cfg(feature = "http")]
pub(super) async fn run_attached<W, Fut, T, E>(
    key: KeyRequest,
    is_settled: fn(&[u8]) -> bool,
    detached: bool,
    work: W,
) -> Result<OnceOutcome<T>, OnceError<E>>
where
    W: FnOnce(LockContext) -> Fut + Send + 'static,
    Fut: Future<Output = Result<(T, WorkVerdict), E>> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    let terms = key.terms;
    let execute = |claimed: ClaimedKey| {
        let lease = Arc::clone(claimed.lock.lease());
        Attached::new(execute(claimed, terms, Unchecked(()), work), lease, detached)
    };
    run_by(key, is_settled, execute).await
}

async fn run_by<X, Fut, T, E>(
    key: KeyRequest,
    is_settled: fn(&[u8]) -> bool,
    execute: X,
) -> Result<OnceOutcome<T>, OnceError<E>>
where
    X: FnOnce(ClaimedKey) -> Fut,
    Fut: Future<Output = Result<OnceOutcome<T>, OnceError<E>>>,
{
    let resource = key.check()?;
    let ended = match key.claim(is_settled).await {
        Ok(claimed) => execute(claimed).await,
        Err(Unclaimed::Done { record, remaining }) => Ok(OnceOutcome::Done { record, remaining }),
        Err(Unclaimed::Busy { retry_after, by, unknown }) => {
            Ok(OnceOutcome::Busy { retry_after, by, unknown })
        }
        Err(Unclaimed::Failed(error)) => Err(error.into()),
    };
    telemetry::ended(&resource, &ended);
    ended
}

/// Runs the check, then the work unless the check finds it done, and records the end.
///
/// # Cancel safety
///
/// Dropping the future drops the work, then releases the lock: see [`StartedRecord`]. Work that has ended
/// is recorded nevertheless.
async fn execute<C, W, Fut, T, E>(
    claimed: ClaimedKey,
    terms: Terms,
    check: C,
    work: W,
) -> Result<OnceOutcome<T>, OnceError<E>>
where
    C: Check<E>,
    W: FnOnce(LockContext) -> Fut,
    Fut: Future<Output = Result<(T, WorkVerdict), E>>,
{
    let ClaimedKey { started, lock } = claimed;
    let flag = started.flag().clone();
    let mut guarded = pin!(Guarded::start(lock, |context| async move {
        if let Some(check) = check.check(context.clone())
            && check.await?
        {
            return Ok(None);
        }
        flag.set();
        work(context).await.map(Some)
    })?);
    // Declared after the work, so dropped before it: the record is removed under the lock.
    let started = started;
    let (ended, hold) = match guarded.as_mut().await {
        Ok((Ok(ended), hold)) => (ended, hold),
        Ok((Err(error), _hold)) => {
            // Before the release of the lock.
            started.forget();
            return Err(OnceError::Work(error));
        }
        Err(lost) => {
            started.forget_unless_started();
            return Err(lost.into());
        }
    };
    let Some((output, verdict)) = ended else {
        // The check found the work done. If the record is not stored, the next request checks again.
        let (record, _) = store_end(&hold, started, (true, Arc::default()), terms.retain).await;
        return Ok(OnceOutcome::Done { record, remaining: terms.retain });
    };
    match verdict {
        WorkVerdict::Done { payload } => {
            match store_end(&hold, started, (true, payload), terms.retain).await.1 {
                Ok(()) => Ok(OnceOutcome::Ran(output)),
                Err(error) => {
                    telemetry::unrecorded(hold.lease(), &error);
                    Ok(OnceOutcome::Unrecorded(output, error))
                }
            }
        }
        WorkVerdict::Free => {
            started.forget();
            Ok(OnceOutcome::Ran(output))
        }
        WorkVerdict::Unknown { hold: time } => {
            let is_stored = match time {
                Some(time) if !started.is_stored() => {
                    store_end(&hold, started, (false, Arc::default()), time).await.1.is_ok()
                }
                _ => started.keep(),
            };
            telemetry::unknown(hold.lease(), is_stored);
            Ok(OnceOutcome::Ran(output))
        }
    }
}

/// Stores the record of ended work under its lock, which is still renewed.
async fn store_end(
    hold: &Hold,
    started: StartedRecord,
    (is_done, payload): (bool, Arc<[u8]>),
    retain: std::time::Duration,
) -> (Arc<Record>, Result<(), LockError>) {
    let lease = hold.lease();
    // The work has ended: dropping this future no longer removes the record.
    started.keep();
    let record = record::new(lease, is_done, payload);
    let warning = record::DropWarning::new(lease, is_done);
    let stored = record::store(Arc::clone(lease), Arc::clone(&record), retain).await;
    warning.disarm();
    (record, stored)
}

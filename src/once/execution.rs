//! Work under the lock of its key, from its start to the record of its end.

use std::{future::Future, ops::ControlFlow, pin::pin, sync::Arc};

use super::{
    OnceError,
    claim::{ClaimedKey, KeyRequest},
    outcome::{KeyEnd, OnceOutcome},
    telemetry,
    terms::Terms,
    work::{Check, EndedWork, WorkVerdict},
};
#[cfg(feature = "http")]
use super::{attached::Attached, work::Unchecked};
use crate::{
    error::LockError,
    guard::{Guarded, LockContext},
    sync::atomic::Ordering,
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
    Fut: Future<Output = EndedWork<T, E>>,
{
    let terms = key.terms;
    // Boxed, as work may be large.
    run_by(key, |_| true, |claimed| Box::pin(execute(claimed, terms, check, work))).await
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
    Fut: Future<Output = EndedWork<T, E>> + Send + 'static,
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
        Ok(ControlFlow::Continue(claimed)) => execute(claimed).await,
        Ok(ControlFlow::Break(outcome)) => Ok(outcome),
        Err(error) => Err(error.into()),
    };
    telemetry::ended(&resource, &ended);
    ended
}

/// Runs the check, then the work unless the check finds it done, and records the end.
///
/// # Cancel safety
///
/// Dropping the future drops the work, then releases the lock. Its record stays or is removed: see
/// [`StartedRecord`](super::record::StartedRecord). Work that has ended is recorded nevertheless.
async fn execute<C, W, Fut, T, E>(
    claimed: ClaimedKey,
    terms: Terms,
    check: C,
    work: W,
) -> Result<OnceOutcome<T>, OnceError<E>>
where
    C: Check<E>,
    W: FnOnce(LockContext) -> Fut,
    Fut: Future<Output = EndedWork<T, E>>,
{
    let ClaimedKey { started, lock } = claimed;
    let has_started = Arc::clone(started.has_started());
    let mut guarded = pin!(Guarded::start(lock, |context| async move {
        if let Some(check) = check.check(context.clone()) {
            match check.await {
                Ok(false) => {}
                Ok(true) => return None,
                // The work has not started.
                Err(error) => return Some((Err(error), WorkVerdict::Free)),
            }
        }
        let was_started = has_started.swap(true, Ordering::Relaxed);
        assert!(!was_started, "work starts once");
        Some(work(context).await)
    })?);
    // Declared after the work, so dropped before it: the record is removed under the lock.
    let started = started;
    let (ended, hold) = match guarded.as_mut().await {
        Ok(ended) => ended,
        Err(lost) => {
            started.forget_unless_started();
            return Err(lost.into());
        }
    };
    // Each record is removed or stored before the release of the lock.
    let Some((output, verdict)) = ended else {
        // If the record is not stored, the next request runs the check again.
        let (lock, payload) = (hold.into_lock(), Arc::default());
        let (record, _) = started.store_end(lock, true, payload, terms.retain).await;
        return Ok(OnceOutcome::Done { record, remaining: terms.retain });
    };
    let (output, key) = match verdict {
        WorkVerdict::Done { payload } => {
            let lock = hold.into_lock();
            let stored = started.store_end(lock, true, payload, terms.retain).await.1;
            match (output, stored) {
                (Ok(output), Err(error)) => return Ok(OnceOutcome::Unrecorded(output, error)),
                (output, _) => (output, KeyEnd::Done),
            }
        }
        WorkVerdict::Free => {
            started.forget();
            (output, KeyEnd::Free)
        }
        WorkVerdict::Unknown { hold: time } => {
            let lease = Arc::clone(hold.lease());
            let is_held = match time {
                Some(time) if !started.is_stored() => {
                    let (lock, payload) = (hold.into_lock(), Arc::default());
                    let stored = started.store_end(lock, false, payload, time).await.1;
                    // While it is owed, the lock is kept.
                    !matches!(stored, Err(LockError::Lost { .. }))
                }
                _ => started.keep(),
            };
            // An error that frees the key is the caller's.
            if output.is_ok() || is_held || time.is_some() {
                telemetry::unknown(&lease, is_held);
            }
            (output, KeyEnd::Unknown)
        }
    };
    output.map(|output| OnceOutcome::Ran(output, key)).map_err(OnceError::Work)
}

use super::{OnceError, outcome::Outcome};
use crate::{error::LockError, lock::ActiveLease, metrics, resource::Resource};

/// Whoever operates this has to look whether it happened twice.
pub(super) fn unrecorded(resource: &Resource, token: u64, error: &LockError) {
    crate::log::warn!(
        key = %resource, token, %error,
        "work was done, and too few nodes keep that: it may run again, or may have run elsewhere"
    );
}

/// Whoever operates this has to find out how far the work came.
pub(super) fn dropped(resource: &Resource, token: u64, is_held: bool) {
    metrics::once("dropped");
    if is_held {
        crate::log::warn!(
            key = %resource, token,
            "work was dropped in the middle, or panicked: its outcome is unknown, and its key is held \
             until somebody decides by mark_done or forget, or UnknownOutcome::Hold is over"
        );
    } else {
        crate::log::warn!(
            key = %resource, token,
            "work was dropped in the middle, or panicked: its outcome is unknown, and the next request \
             with the key runs it again"
        );
    }
}

/// The same for work that said so itself.
pub(super) fn unknown(lease: &ActiveLease, is_held: bool) {
    let then = if is_held {
        "its key is held until somebody decides by mark_done or forget, or the time of that is over"
    } else {
        "the next request with the key runs it again"
    };
    let (key, token) = (lease.resource(), lease.token().get());
    crate::log::warn!(%key, token, "work ended with an unknown outcome: {then}");
}

/// The call of work that has ended was dropped before a quorum had answered that it keeps that.
pub(super) fn recording_dropped(lease: &ActiveLease, is_done: bool) {
    metrics::once("dropped");
    let what = if is_done { "was done" } else { "ended with an unknown outcome" };
    let (key, token) = (lease.resource(), lease.token().get());
    crate::log::warn!(
        %key, token,
        "work {what}, and its call was dropped while that was being recorded: too few nodes may keep \
         it, and the next request with the key may run it again"
    );
}

/// How a request ended.
pub(super) fn ended<T, E>(resource: &Resource, result: &Result<Outcome<T>, OnceError<E>>) {
    let outcome = match result {
        Ok(Outcome::Ran(_)) => "ran",
        Ok(Outcome::Unrecorded(..)) => "unrecorded",
        Ok(Outcome::Done { .. }) => "already_done",
        Ok(Outcome::Busy { unknown: false, .. }) => "in_progress",
        Ok(Outcome::Busy { unknown: true, .. }) => "unknown",
        Err(OnceError::Work(_)) => "failed",
        Err(OnceError::Lock(LockError::Lost { .. })) => "lost",
        Err(OnceError::Lock(_)) => "not_run",
    };
    metrics::once(outcome);
    crate::log::debug!(key = %resource, outcome, "once");
}

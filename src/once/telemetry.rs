//! Events and metrics of once requests.

use super::{
    OnceError,
    outcome::{KeyEnd, OnceOutcome},
};
use crate::{error::LockError, lock::ActiveLease, metrics, resource::Resource};

/// The operator has to find out how far the work came.
pub(super) fn dropped(lease: &ActiveLease, is_held: bool) {
    metrics::once("dropped");
    let (key, token, then) = (lease.resource(), lease.token().get(), key_state(is_held));
    crate::log::warn!(%key, token, "work was dropped or panicked: its outcome is unknown; {then}");
}

/// Work reported that its outcome is unknown.
pub(super) fn unknown(lease: &ActiveLease, is_held: bool) {
    let (key, token, then) = (lease.resource(), lease.token().get(), key_state(is_held));
    crate::log::warn!(%key, token, "work ended with an unknown outcome: {then}");
}

const fn key_state(is_held: bool) -> &'static str {
    if is_held {
        "its key is held until mark_done or forget, or until the hold time ends"
    } else {
        "the next request with the key runs it again"
    }
}

/// Reports how a request ended.
pub(super) fn ended<T, E>(resource: &Resource, result: &Result<OnceOutcome<T>, OnceError<E>>) {
    let outcome = match result {
        Ok(OnceOutcome::Ran(_, KeyEnd::Done)) => "ran",
        Ok(OnceOutcome::Ran(_, KeyEnd::Free)) => "freed",
        Ok(OnceOutcome::Ran(_, KeyEnd::Unknown)) => "uncertain",
        Ok(OnceOutcome::Unrecorded(..)) => "owed",
        Ok(OnceOutcome::Done { .. }) => "already_done",
        Ok(OnceOutcome::Busy { unknown: false, .. }) => "in_progress",
        Ok(OnceOutcome::Busy { unknown: true, .. }) => "unknown",
        Err(OnceError::Work(_)) => "failed",
        Err(OnceError::Lock(LockError::Lost { .. })) => "lost",
        Err(OnceError::Lock(_)) => "not_run",
    };
    metrics::once(outcome);
    crate::log::debug!(key = %resource, outcome, "once");
}

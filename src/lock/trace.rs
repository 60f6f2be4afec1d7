//! The span of a request for a lock. `docs/observability.md` has its fields.

use std::{fmt, time::Duration};

use tracing::{Span, field};

use super::lock::Lock;
use crate::{
    error::{LockError, Votes},
    metrics,
};

/// Returns the span of a request; `slots` is the number of slots of which it takes any.
pub(super) fn acquire_span(resource: &dyn fmt::Display, slots: Option<u32>) -> Span {
    tracing::debug_span!(
        "acquire",
        %resource,
        slots,
        attempt = field::Empty,
        votes = field::Empty,
        outcome = field::Empty,
        error = field::Empty,
        token = field::Empty,
        elapsed = field::Empty,
    )
}

/// Records the votes for an attempt that was granted.
pub(super) fn record_grant(span: &Span, (granted, of): (usize, usize)) {
    span.record("votes", field::display(format_args!("{granted} of {of}")));
}

/// Records how a request ended. Called within the span.
pub(super) fn record_end(span: &Span, result: &Result<Lock, LockError>, elapsed: Duration) {
    if span.is_disabled() {
        return;
    }
    span.record("elapsed", field::debug(elapsed));
    span.record("outcome", metrics::outcome(result.as_ref().map(|_| ())));
    match result {
        Ok(lock) => {
            span.record("token", lock.fencing_token().get());
            crate::log::debug!("acquired");
        }
        Err(error) => {
            span.record("error", field::display(error));
            if let Some(votes) = refusing(error) {
                span.record("votes", field::display(votes));
            }
            crate::log::debug!("not acquired");
        }
    }
}

/// Returns the votes of the last attempt, if no quorum answered it.
fn refusing(error: &LockError) -> Option<&Votes> {
    match error.root() {
        LockError::NoQuorum { votes } => Some(votes),
        _ => None,
    }
}

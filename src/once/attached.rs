//! Work that its caller polls, and that continues as a task of its own if the caller drops it.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::runtime::Handle;
use tracing::{Instrument, Span};

use super::{OnceError, outcome::OnceOutcome, telemetry};
use crate::lock::{ActiveLease, DetachedWork, Inside};

/// The future of work under its lock. If it is dropped before its end, the work continues as a task.
pub(super) struct Attached<T: 'static, E: 'static> {
    /// `None` after its end, and during a poll: work that panics does not continue.
    work: Option<AttachedWork<T, E>>,
    /// `None` if the work ends with its caller.
    place: Option<DetachPlace>,
}

type AttachedWork<T, E> =
    Pin<Box<dyn Future<Output = Result<OnceOutcome<T>, OnceError<E>>> + Send>>;

/// The runtime and the span in which dropped work continues.
struct DetachPlace {
    lease: Arc<ActiveLease>,
    runtime: Handle,
    span: Span,
}

impl<T, E> Attached<T, E> {
    /// If `detached`, dropped work continues on the current tokio runtime, in the current span. Outside a
    /// runtime it is dropped.
    pub(super) fn new(
        work: impl Future<Output = Result<OnceOutcome<T>, OnceError<E>>> + Send + 'static,
        lease: Arc<ActiveLease>,
        detached: bool,
    ) -> Self {
        let runtime = detached.then(Handle::try_current).and_then(Result::ok);
        let place = runtime.map(|runtime| DetachPlace { lease, runtime, span: Span::current() });
        Self { work: Some(Box::pin(work)), place }
    }
}

impl<T, E> Future for Attached<T, E> {
    type Output = Result<OnceOutcome<T>, OnceError<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut work = self.work.take().expect("polled after it was ready");
        let polled = work.as_mut().poll(cx);
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl<T: 'static, E: 'static> Drop for Attached<T, E> {
    fn drop(&mut self) {
        let (Some(work), Some(place)) = (self.work.take(), self.place.take()) else { return };
        let DetachPlace { lease, runtime, span } = place;
        crate::log::debug!(
            key = %lease.resource(),
            "the caller dropped the work; it continues as a task"
        );
        let counted = DetachedWork::begin(lease.client(), lease.over_at());
        let work = Inside::new(lease.client(), work);
        let task = async move {
            telemetry::ended(lease.resource(), &work.await);
            // After the record and the release.
            drop(counted);
        };
        drop(runtime.spawn(task.instrument(span)));
    }
}

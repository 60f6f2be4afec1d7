//! Work that its caller polls, and that continues as a task of its own if the caller drops it.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

#[cfg(feature = "http")]
use tokio::runtime::Handle;
#[cfg(feature = "http")]
use tracing::{Instrument, Span};

use super::{Check, Completes, OnceError, Work, execution::Execution, outcome::OnceOutcome};
#[cfg(feature = "http")]
use crate::lock::DetachedWork;

/// An [`Execution`] in the hands of its caller.
pub(super) struct Attached<W: Work, C: Check<W::Failure>, J> {
    /// Boxed, as it may move to another task. `None` after its end.
    execution: Option<Pin<Box<Execution<W, C, J>>>>,
    /// A poll is under way, or has panicked.
    in_poll: bool,
    #[cfg(feature = "http")]
    spawner: Option<DetachSpawner<Execution<W, C, J>>>,
}

impl<W: Work, C: Check<W::Failure>, J> Attached<W, C, J> {
    pub(super) fn new(execution: Execution<W, C, J>) -> Self {
        Self {
            execution: Some(Box::pin(execution)),
            in_poll: false,
            #[cfg(feature = "http")]
            spawner: None,
        }
    }

    /// Passes the execution to `spawner` on drop.
    #[cfg(feature = "http")]
    pub(super) fn detachable(mut self, spawner: Option<DetachSpawner<Execution<W, C, J>>>) -> Self {
        self.spawner = spawner;
        self
    }

    pub(super) fn name(&self) -> &'static str {
        self.execution.as_ref().map_or("over", |execution| execution.name())
    }
}

impl<W, C, J> Future for Attached<W, C, J>
where
    W: Work,
    C: Check<W::Failure>,
    J: Completes<W::Success>,
{
    type Output = Result<OnceOutcome<W::Success>, OnceError<W::Failure>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let execution = this.execution.as_mut().expect("polled after it was ready");
        this.in_poll = true;
        let polled = execution.as_mut().poll(cx);
        this.in_poll = false;
        if polled.is_ready() {
            this.execution = None;
        }
        polled
    }
}

#[cfg(feature = "http")]
impl<W: Work, C: Check<W::Failure>, J> Drop for Attached<W, C, J> {
    fn drop(&mut self) {
        if !self.in_poll
            && let (Some(execution), Some(spawner)) = (self.execution.take(), self.spawner.take())
        {
            (spawner.detach.0)(execution, &spawner.runtime, spawner.span);
        }
    }
}

/// Spawns dropped work on the runtime of its caller.
#[cfg(feature = "http")]
pub(super) struct Detach<E>(fn(Pin<Box<E>>, &Handle, Span));

#[cfg(feature = "http")]
impl<E> Clone for Detach<E> {
    fn clone(&self) -> Self {
        *self
    }
}

#[cfg(feature = "http")]
impl<E> Copy for Detach<E> {}

#[cfg(feature = "http")]
impl<W, C, J> Detach<Execution<W, C, J>>
where
    W: Work,
    C: Check<W::Failure>,
    J: Completes<W::Success>,
    Execution<W, C, J>: Send + 'static,
{
    /// Work that is never detached need not meet the bounds of this function.
    pub(super) fn new() -> Self {
        Self(|execution, runtime, span| {
            let lease = execution.lease();
            crate::log::debug!(
                key = %lease.resource(),
                "the caller dropped the work; it continues as a task"
            );
            let counted = DetachedWork::begin(lease.client(), lease.over_at());
            let task = async move {
                let resource = execution.resource().clone();
                super::telemetry::ended(&resource, &execution.await);
                // After the record and the release.
                drop(counted);
            };
            drop(runtime.spawn(task.instrument(span)));
        })
    }
}

#[cfg(feature = "http")]
impl<E> Detach<E> {
    /// Returns a spawner on the current tokio runtime, in the current span; `None` outside a runtime.
    pub(super) fn spawner(self) -> Option<DetachSpawner<E>> {
        let (runtime, span) = (Handle::try_current().ok()?, Span::current());
        Some(DetachSpawner { detach: self, runtime, span })
    }
}

/// The runtime and span in which detached work continues.
#[cfg(feature = "http")]
pub(super) struct DetachSpawner<E> {
    detach: Detach<E>,
    runtime: Handle,
    span: Span,
}

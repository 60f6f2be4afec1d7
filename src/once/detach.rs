use std::pin::Pin;

use tokio::runtime::Handle;
use tracing::{Instrument, Span};

use super::{Check, Completes, Work, execution::Execution, telemetry};
use crate::lock::DetachedWork;

/// Has work go on where its caller drops it, as a task of the runtime that the caller ran on.
pub(super) struct Detach<E>(fn(Pin<Box<E>>, &Handle, Span));

impl<E> Clone for Detach<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Detach<E> {}

impl<W, C, J> Detach<Execution<W, C, J>>
where
    W: Work,
    C: Check<W::Failure>,
    J: Completes<W::Success>,
    Execution<W, C, J>: Send + 'static,
{
    /// The bounds are here, so that work which is never detached need not meet them.
    pub(super) fn new() -> Self {
        Self(|execution, runtime, span| {
            let lease = execution.lease();
            crate::log::debug!(
                key = %lease.resource(),
                "the caller of work has gone: the work goes on without it"
            );
            let counted = DetachedWork::begin(lease);
            let goes_on = async move {
                let resource = execution.resource().clone();
                telemetry::ended(&resource, &execution.await);
                // Behind the record and the release.
                drop(counted);
            };
            drop(runtime.spawn(goes_on.instrument(span)));
        })
    }
}

impl<E> Detach<E> {
    /// To be called where the work begins. `None` outside a tokio runtime.
    pub(super) fn away(self) -> Option<Away<E>> {
        Some(Away { detach: self, runtime: Handle::try_current().ok()?, span: Span::current() })
    }
}

/// Where work goes on.
pub(super) struct Away<E> {
    detach: Detach<E>,
    runtime: Handle,
    span: Span,
}

impl<E> Away<E> {
    pub(super) fn go_on(self, execution: Pin<Box<E>>) {
        (self.detach.0)(execution, &self.runtime, self.span);
    }
}

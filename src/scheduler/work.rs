use std::{error::Error, future::Future, pin::Pin};

use tower_service::Service;

use super::JobContext;

/// The error of a job, whatever it is.
pub type JobError = Box<dyn Error + Send + Sync>;

/// What a job's closure may give back: nothing, or a result.
pub trait JobResult {
    /// The result; nothing counts as success.
    fn into_result(self) -> Result<(), JobError>;
}

impl JobResult for () {
    fn into_result(self) -> Result<(), JobError> {
        Ok(())
    }
}

impl<E: Into<JobError>> JobResult for Result<(), E> {
    fn into_result(self) -> Result<(), JobError> {
        self.map_err(Into::into)
    }
}

pub(super) type Running<'a> = Pin<Box<dyn Future<Output = Result<(), JobError>> + Send + 'a>>;

/// The work of a job, one run at a time.
pub(super) trait Work: Send {
    fn run(&mut self, context: JobContext) -> Running<'_>;
}

/// Work that is a service.
pub(super) struct ServiceWork<S>(pub(super) S);

impl<S> Work for ServiceWork<S>
where
    S: Service<JobContext, Response = ()> + Send,
    S::Error: Into<JobError>,
    S::Future: Send,
{
    fn run(&mut self, context: JobContext) -> Running<'_> {
        Box::pin(async move {
            std::future::poll_fn(|cx| self.0.poll_ready(cx)).await.map_err(Into::into)?;
            self.0.call(context).await.map_err(Into::into)
        })
    }
}

/// Work that is a closure.
pub(super) struct FnWork<F>(pub(super) F);

impl<F, Fut> Work for FnWork<F>
where
    F: FnMut(JobContext) -> Fut + Send,
    Fut: Future<Output: JobResult> + Send,
{
    fn run(&mut self, context: JobContext) -> Running<'_> {
        // The closure runs at the first poll: under the guard, and where its panic is caught.
        Box::pin(async move { (self.0)(context).await.into_result() })
    }
}

/// Work that blocks its thread.
pub(super) struct BlockingWork<F>(pub(super) F);

impl<F, R> Work for BlockingWork<F>
where
    F: FnMut(JobContext) -> R + Send,
    R: JobResult,
{
    fn run(&mut self, context: JobContext) -> Running<'_> {
        Box::pin(async move { (self.0)(context).into_result() })
    }
}

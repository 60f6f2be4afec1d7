//! The work of a job, and its errors.

use std::{
    any::Any,
    borrow::Cow,
    error::Error,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tower_service::Service;

use super::JobContext;

/// The boxed error of a job.
pub type JobError = Box<dyn Error + Send + Sync>;

/// A return value of a job's closure: nothing, or a result.
pub trait IntoJobResult {
    /// The result; nothing counts as success.
    fn into_result(self) -> Result<(), JobError>;
}

impl IntoJobResult for () {
    fn into_result(self) -> Result<(), JobError> {
        Ok(())
    }
}

impl<E: Into<JobError>> IntoJobResult for Result<(), E> {
    fn into_result(self) -> Result<(), JobError> {
        self.map_err(Into::into)
    }
}

pub(super) type Running = Pin<Box<dyn Future<Output = Result<(), JobError>> + Send>>;

/// The work of a job. It begins one run at a time.
pub(super) trait JobWork: Send {
    /// Waits until a run may begin.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), JobError>>;

    /// Begins a run.
    fn call(&mut self, context: JobContext) -> Running;
}

/// Work that is a service.
pub(super) struct ServiceWork<S>(pub(super) S);

impl<S> JobWork for ServiceWork<S>
where
    S: Service<JobContext, Response = ()> + Send + 'static,
    S::Error: Into<JobError>,
    S::Future: Send,
{
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), JobError>> {
        self.0.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, context: JobContext) -> Running {
        let response = self.0.call(context);
        Box::pin(async move { response.await.map_err(Into::into) })
    }
}

/// Work that is a closure. It may block its thread in the call.
pub(super) struct FnWork<F>(pub(super) F);

impl<F, Fut> JobWork for FnWork<F>
where
    F: FnMut(JobContext) -> Fut + Send,
    Fut: Future<Output: IntoJobResult> + Send + 'static,
{
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), JobError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, context: JobContext) -> Running {
        let work = (self.0)(context);
        Box::pin(async move { work.await.into_result() })
    }
}

/// The message of a panic, if it is a text.
pub(super) fn panic_message(panic: &(dyn Any + Send)) -> Arc<str> {
    if let Some(text) = panic.downcast_ref::<&str>() {
        return (*text).into();
    }
    panic.downcast_ref::<String>().map_or("a panic without a text", String::as_str).into()
}

/// The error of unfinished work that asks to be run again.
///
/// Any job may return it, also as a [source](Error::source) of its own error. Where the job
/// [claims at the end](super::Claim::AtEnd), the run has the outcome
/// [`NotDone`](super::Outcome::NotDone), and its tick is run again as one more
/// [attempt](super::JobContext::attempt), on this replica or another. The pause before that begins
/// with the job's [`backoff`](super::Job::backoff) and doubles with every attempt, up to a minute; the
/// lock is kept meanwhile, unless the scheduler shuts down. The job's
/// [`retries`](super::Job::retries) are not used up.
///
/// Where it [claims at the start](super::Claim::AtStart), a tick is never run twice: there it is an
/// error as any other.
///
/// ```
/// use std::time::Duration;
/// use tower_redlock::{scheduler::{Claim, NotDone}, Job, JobContext, Schedule};
///
/// let hourly = Schedule::every(Duration::from_secs(3600));
/// let import = Job::new("import", hourly, |cx: JobContext| async move {
///     for file in 0..100 {
///         # async fn import(_file: u32) {}
///         tokio::select! {
///             () = import(file) => {}
///             () = cx.stopping() => return Err(NotDone::new(format!("{file} of 100 files"))),
///         }
///     }
///     Ok(())
/// })
/// .claim(Claim::AtEnd);
/// # drop(import);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotDone {
    reason: Cow<'static, str>,
}

impl NotDone {
    /// Creates the error, with what is left to do or why, for people.
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { reason: reason.into() }
    }

    /// Returns the reason that was given.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Whether the error, or one of its sources, is a `NotDone`.
    pub(super) fn is_in(error: &(dyn Error + 'static)) -> bool {
        /// Longer chains are taken for endless.
        const MAX_SOURCES: usize = 64;
        let mut next = Some(error);
        for _ in 0..MAX_SOURCES {
            let Some(error) = next else { return false };
            if error.is::<Self>() {
                return true;
            }
            next = error.source();
        }
        false
    }
}

impl fmt::Display for NotDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not done: {}", self.reason)
    }
}

impl Error for NotDone {}

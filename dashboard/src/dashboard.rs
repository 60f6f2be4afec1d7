//! The service.

use std::{
    convert::Infallible,
    error::Error,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use tower_redlock::{Redlock, SchedulerHandle};
use tower_service::Service;

use crate::{access::Authorize, reply::DashboardBody, router::answer, site::Site};

/// A service that shows and steers the locks and jobs of a manager. See the [crate](crate) for an example.
///
/// Clones are cheap, and share what was read from the servers.
///
/// # Panics
///
/// A call panics outside of a Tokio runtime with a timer: requests are answered on it.
#[derive(Clone)]
pub struct Dashboard(pub(crate) Site);

impl Dashboard {
    /// Returns the pages of a manager. Every request is answered 403 until [`access`](Self::access) is set.
    ///
    /// Events and counts are recorded from now on, inside a runtime, and else from the first request: a task reads
    /// the manager's counts every 5 s. There is no other cost until the first request. The tasks run on the runtime
    /// of that call, and end with it.
    pub fn new(redlock: Redlock) -> Self {
        Self(Site::new(redlock))
    }

    /// Adds the jobs of a scheduler: their schedules, next ticks and states in this process, and their events.
    /// May be called once for each scheduler. Jobs that other processes run are shown without it, as far as
    /// the servers know them.
    #[must_use]
    pub fn jobs(mut self, scheduler: SchedulerHandle) -> Self {
        self.0.add(scheduler);
        self
    }

    /// Sets what each viewer may see and do. Default: nothing.
    ///
    /// ```
    /// use tower_redlock::Redlock;
    /// use tower_redlock_dashboard::{Access, Dashboard};
    ///
    /// # let redlock = Redlock::embedded();
    /// // Behind a proxy that authenticates, and that alone sets this header.
    /// let dashboard = Dashboard::new(redlock).access(|request: &http::request::Parts| {
    ///     match request.headers.get("x-user").and_then(|user| user.to_str().ok()) {
    ///         Some(user) if user.ends_with("@ops") => Access::All.by(user),
    ///         Some(user) => Access::ReadOnly.by(user),
    ///         None => Access::Forbidden.into(),
    ///     }
    /// });
    /// ```
    #[must_use]
    pub fn access(mut self, access: impl Authorize) -> Self {
        self.0.access = Some(Arc::new(access));
        self
    }

    /// Ends the streams of events of this dashboard and its clones, for good: new ones are answered 503. Pages
    /// are served on. Returns at once.
    ///
    /// Call it where a graceful shutdown begins, which would wait for open streams for up to 20 s. Browsers
    /// connect again, to another replica if there is one.
    ///
    /// ```no_run
    /// # async fn serve(dashboard: tower_redlock_dashboard::Dashboard) -> std::io::Result<()> {
    /// use axum::Router;
    ///
    /// let app: Router = Router::new().nest_service("/admin/locks", dashboard.clone());
    /// let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    /// let stopped = async move {
    ///     let _ = tokio::signal::ctrl_c().await;
    ///     dashboard.end_streams();
    /// };
    /// axum::serve(listener, app).with_graceful_shutdown(stopped).await
    /// # }
    /// ```
    pub fn end_streams(&self) {
        self.0.log.end_streams();
    }
}

impl fmt::Debug for Dashboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dashboard").field("redlock", &self.0.redlock).finish_non_exhaustive()
    }
}

impl<B> Service<Request<B>> for Dashboard
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Response = Response<DashboardBody>;
    type Error = Infallible;
    type Future = DashboardFuture;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> DashboardFuture {
        DashboardFuture(Box::pin(answer(self.0.clone(), request)))
    }
}

/// The future of a call of [`Dashboard`].
///
/// # Cancel safety
///
/// Dropping it does not undo an action that was begun.
#[must_use = "futures do nothing unless polled"]
pub struct DashboardFuture(BoxFuture<'static, Response<DashboardBody>>);

impl Future for DashboardFuture {
    type Output = Result<Response<DashboardBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx).map(Ok)
    }
}

impl fmt::Debug for DashboardFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DashboardFuture").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use http_body_util::Full;

    use super::*;
    use crate::Access;

    #[tokio::test]
    async fn action_outlives_its_viewer() {
        let redlock = Redlock::embedded();
        let mut dashboard = Dashboard::new(redlock.clone())
            .access(|_: &http::request::Parts| Access::All.by("ann"));
        let form = Full::<bytes::Bytes>::from("name=report");
        let mut call = dashboard.call(Request::post("/pause").body(form).unwrap());
        let first = poll_fn(|cx| Poll::Ready(Pin::new(&mut call).poll(cx).is_pending()));
        assert!(first.await, "it has not ended");
        drop(call);
        while dashboard.0.log.after(0).is_empty() {
            tokio::task::yield_now().await;
        }
        let events = dashboard.0.log.after(0);
        assert_eq!(events[0].event.text, "report, by ann: the job was paused");
        assert_eq!(&*redlock.job_control("report").await.unwrap().paused.unwrap().by, "ann");
    }
}

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

use http::{Request, Response};
use tower_redlock::{Redlock, scheduler::SchedulerHandle};
use tower_service::Service;

use crate::{
    access::Authorize,
    events::EventLog,
    look::Looks,
    reply::DashboardBody,
    router::{Site, answer},
};

/// A service that shows and steers the locks and jobs of a manager. See the [crate](crate) for an example.
///
/// Clones are cheap, and share what was read from the servers.
///
/// # Panics
///
/// A call panics outside of a Tokio runtime with a timer: requests are answered on it.
#[derive(Clone)]
pub struct Dashboard {
    redlock: Redlock,
    schedulers: Vec<SchedulerHandle>,
    access: Option<Arc<dyn Authorize>>,
    looks: Arc<Looks>,
    log: Arc<EventLog>,
}

impl Dashboard {
    /// Returns the pages of a manager, to which nobody has [access](Self::access) yet.
    ///
    /// Events are recorded from now on; there is no other cost until the first request.
    pub fn new(redlock: Redlock) -> Self {
        let log = Arc::new(EventLog::default());
        log.follow_locks(redlock.events());
        log.start();
        Self { redlock, schedulers: Vec::new(), access: None, looks: Arc::default(), log }
    }

    /// Adds the jobs of a scheduler: their schedules, next ticks and states in this process, and their events.
    /// May be called once for each scheduler. Jobs that other processes run are shown without it, as far as
    /// the servers know them.
    #[must_use]
    pub fn jobs(mut self, scheduler: SchedulerHandle) -> Self {
        self.log.follow_jobs(scheduler.events());
        self.log.start();
        self.schedulers.push(scheduler);
        self
    }

    /// Sets who may see and do what. Default: nobody anything.
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
        self.access = Some(Arc::new(access));
        self
    }
}

impl fmt::Debug for Dashboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dashboard").field("redlock", &self.redlock).finish_non_exhaustive()
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
        let Self { redlock, schedulers, access, looks, log } = self.clone();
        let site = Site { redlock, schedulers, access, looks, log };
        DashboardFuture(Box::pin(answer(site, request)))
    }
}

/// The future of a call of [`Dashboard`].
///
/// # Cancel safety
///
/// Dropping it does not undo an action that was begun.
#[must_use = "futures do nothing unless polled"]
pub struct DashboardFuture(Pin<Box<dyn Future<Output = Response<DashboardBody>> + Send>>);

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
    use std::{
        future::{pending, poll_fn},
        time::Duration,
    };

    use bytes::Bytes;
    use http::{
        StatusCode,
        header::{CONTENT_SECURITY_POLICY, LOCATION},
    };
    use http_body_util::{BodyExt as _, Full};

    use tower_redlock::Schedule;

    use super::*;
    use crate::{Access, reply::Reply};

    fn of(access: Access) -> Dashboard {
        Dashboard::new(Redlock::embedded()).access(move |_: &http::request::Parts| access.by("ann"))
    }

    /// Returns the status, the policy and the page.
    async fn ask(dashboard: &Dashboard, method: &str, path: &str) -> (StatusCode, String, String) {
        let request = Request::builder().method(method).uri(path);
        let body = Full::<Bytes>::from("name=a&key=a");
        let reply = dashboard.clone().call(request.body(body).unwrap()).await.unwrap();
        let policy = reply.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
        let status = reply.status();
        let page = reply.into_body().collect().await.unwrap().to_bytes();
        (status, policy, String::from_utf8(page.to_vec()).unwrap())
    }

    async fn page(dashboard: &Dashboard, path: &str) -> String {
        let (status, _, page) = ask(dashboard, "GET", path).await;
        assert_eq!(status, 200, "{path}: {page}");
        page
    }

    async fn post(dashboard: &Dashboard, path: &str, form: &str) -> Reply {
        let form = Full::<Bytes>::from(form.to_owned());
        dashboard.clone().call(Request::post(path).body(form).unwrap()).await.unwrap()
    }

    fn location(reply: &Reply) -> &str {
        assert_eq!(reply.status(), 303);
        reply.headers()[LOCATION].to_str().unwrap()
    }

    #[tokio::test]
    async fn interval_goes_with_each_link() {
        let dashboard = of(Access::All);
        let redlock = dashboard.redlock.clone();
        let _held = redlock.lock("invoice").await.unwrap();
        let tick = redlock.job_tick("report", Schedule::every(Duration::from_secs(60)));
        tick.run(|_| async { Ok::<_, Infallible>(()) }).await.unwrap();
        let leader = redlock.leader("shop");
        let leading = tokio::spawn(async move { leader.run(|_| pending::<()>()).await });
        while redlock.snapshot().locks.len() < 2 {
            tokio::task::yield_now().await;
        }
        for (path, links) in [
            ("/locks?q=i&refresh=5", &["nodes?refresh=5", "lock?name=invoice&amp;refresh=5"][..]),
            ("/lock?name=invoice&refresh=5", &["break?name=invoice&amp;refresh=5"]),
            ("/jobs?refresh=5", &["job?name=report&amp;refresh=5"]),
            ("/job?name=report&refresh=5", &["pause?name=report&amp;refresh=5"]),
            ("/leaders?refresh=5", &["shop&amp;refresh=5"]),
            ("/once?key=a&refresh=5", &["done?key=a&amp;refresh=5"]),
            ("/pause?name=report&refresh=5", &["job?name=report&amp;refresh=5"]),
        ] {
            let page = page(&dashboard, path).await;
            for link in links {
                assert!(page.contains(&format!("{link}\"")), "{path} leads to {link}: {page}");
            }
        }
        let form = page(&dashboard, "/pause?name=report&refresh=5").await;
        assert!(form.contains(r#"<input type="hidden" name="refresh" value="5">"#), "{form}");
        let reply = post(&dashboard, "/pause", "name=report&refresh=5").await;
        assert_eq!(location(&reply), "job?name=report&done=pause&refresh=5");
        let reply = post(&dashboard, "/resume", "name=report").await;
        assert_eq!(location(&reply), "job?name=report&done=resume");
        leading.abort();
    }

    #[tokio::test]
    async fn refusals_have_the_style() {
        let (reader, all) = (of(Access::ReadOnly), of(Access::All));
        for (dashboard, method, path, expected) in [
            (&reader, "POST", "/pause", 403),
            (&reader, "GET", "/pause?name=a", 403),
            (&all, "POST", "/break", 409),
            (&all, "GET", "/none", 404),
            (&all, "DELETE", "/nodes", 405),
        ] {
            let (status, policy, page) = ask(dashboard, method, path).await;
            assert_eq!(status, expected, "{method} {path}");
            assert!(page.contains(r#"<link rel="stylesheet" href="style.css">"#), "{page}");
            assert!(page.contains(r#"<link rel="icon" href="icon.svg""#), "{page}");
            assert!(policy.contains("style-src 'self'"), "{policy}");
        }
    }

    #[tokio::test]
    async fn unreachable_files_are_not_named() {
        let closed = Dashboard::new(Redlock::embedded());
        // Relative to the last one, the files are elsewhere.
        for (dashboard, path, expected) in [
            (&closed, "/", 403),
            (&of(Access::Forbidden), "/nodes", 403),
            (&of(Access::All), "/api/none", 404),
        ] {
            let (status, policy, page) = ask(dashboard, "GET", path).await;
            assert_eq!(status, expected, "{path}");
            assert!(!page.contains("style.css") && !page.contains("icon.svg"), "{page}");
            assert!(page.contains(r#"<link rel="icon" href="data:,">"#), "{page}");
            assert!(policy.contains("img-src data:"), "{policy}");
        }
    }

    #[tokio::test]
    async fn action_outlives_its_viewer() {
        let redlock = Redlock::embedded();
        let mut dashboard = Dashboard::new(redlock.clone())
            .access(|_: &http::request::Parts| Access::All.by("ann"));
        let mut changes = dashboard.log.changes();
        let form = Full::<Bytes>::from("name=report");
        let mut call = dashboard.call(Request::post("/pause").body(form).unwrap());
        let first = poll_fn(|cx| Poll::Ready(Pin::new(&mut call).poll(cx).is_pending()));
        assert!(first.await, "it has not ended");
        drop(call);
        changes.changed().await.unwrap();
        let events = dashboard.log.after(0);
        assert_eq!(events[0].text, "report, by ann: the job was paused");
        assert_eq!(&*redlock.job_control("report").await.unwrap().paused.unwrap().by, "ann");
    }
}

//! The service: each withdrawal runs under the lock of its account.

use std::{
    convert::Infallible,
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use axum::{
    Extension, Router,
    error_handling::HandleErrorLayer,
    extract::{Path, Request, State},
    http::{HeaderName, StatusCode, Uri, header::RETRY_AFTER},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use tokio::net::TcpListener;
use tower::{ServiceBuilder, ServiceExt};
use tower_redlock::{
    LockContext, LockError, RedlockLayer, SchedulerHandle,
    layer::{self, KeyError},
};
use tower_redlock_dashboard::{Access, Dashboard, by_address};

use crate::{
    Demo,
    cluster::Replica,
    ledger::{Refused, THINKING},
    stop::Stop,
};

/// Time for which a request waited for the lock, in ms.
pub(crate) const WAITED_MS: HeaderName = HeaderName::from_static("x-waited-ms");

/// Maximum time that a withdrawal takes.
const LONGEST_THINKING: Duration = Duration::from_secs(2);
/// Time for which current requests may continue when the demo stops: the maximum wait for a lock.
const GRACE: Duration = Duration::from_secs(2);

/// The state of one replica's handlers.
#[derive(Clone)]
struct Site {
    replica: &'static str,
    demo: Arc<Demo>,
}

fn router(demo: Arc<Demo>, replica: Replica) -> Router {
    let site = Site { replica: replica.name, demo };
    let one_at_a_time = ServiceBuilder::new()
        .layer(middleware::from_fn_with_state(site.clone(), observe))
        // Around the layer of the lock: converts its errors to responses.
        .layer(HandleErrorLayer::new(rejection))
        .layer(RedlockLayer::new(replica.redlock, account).wait(Duration::from_secs(2)));
    Router::new()
        // Only for this method of this path, as reading needs no lock.
        .route("/accounts/{id}/withdraw", post(withdraw).route_layer(one_at_a_time))
        .route("/accounts/{id}", get(balance))
        .with_state(site)
}

/// The name of the lock. Made from the parsed number, as `/accounts/7` and `/accounts/07` are the same
/// account to the handler.
fn account(request: &Request) -> Result<String, KeyError> {
    let id: Option<usize> = request.uri().path().split('/').nth(2).and_then(|id| id.parse().ok());
    id.map(|id| format!("account:{id}")).ok_or_else(|| KeyError::new("the account is not a number"))
}

async fn withdraw(
    State(site): State<Site>,
    Extension(Arrived(arrived)): Extension<Arrived>,
    Path(id): Path<usize>,
    uri: Uri,
) -> Result<impl IntoResponse, Refused> {
    let waited = arrived.elapsed();
    let thinking_ms =
        uri.query().and_then(|query| query.strip_prefix("thinking_ms=")?.parse().ok());
    let thinking = thinking_ms.map_or(THINKING, Duration::from_millis);
    let lock = LockContext::current().expect("this route is behind the RedlockLayer");
    let token = lock.fencing_token();
    let _entry = site.demo.board.enter(site.replica, lock);
    let balance = site.demo.ledger.withdraw(id, token, thinking.min(LONGEST_THINKING)).await?;
    let text = format!("account {id}: {balance} left (by {} with token {token})\n", site.replica);
    Ok(([(WAITED_MS, waited.as_millis().to_string())], text))
}

async fn balance(State(site): State<Site>, Path(id): Path<usize>) -> Result<String, Refused> {
    Ok(format!("account {id}: {}\n", site.demo.ledger.balance(id)?))
}

/// Turns a lock error into a response. The status says what the client may do next.
async fn rejection(error: layer::GuardError<Infallible>) -> Response {
    let layer::GuardError::Lock(error) = error else {
        unreachable!("axum's services do not fail");
    };
    let status = status(&error);
    let text = format!("{error}\n");
    match status {
        StatusCode::CONFLICT => {
            (status, [(RETRY_AFTER, retry_after(&error))], text).into_response()
        }
        StatusCode::INTERNAL_SERVER_ERROR => {
            (status, format!("the outcome is unknown: {text}")).into_response()
        }
        _ => (status, text).into_response(),
    }
}

fn status(error: &LockError) -> StatusCode {
    match error.root() {
        // Another request holds the lock: nothing was done.
        LockError::Held { .. } => StatusCode::CONFLICT,
        LockError::InvalidResource(_) => StatusCode::BAD_REQUEST,
        // The work had begun: its outcome is unknown.
        LockError::Lost { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        // NoQuorum, TooSlow, Closed: nothing was done.
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// Returns whole seconds, rounded up, or one if the time is unknown.
fn retry_after(error: &LockError) -> String {
    let after = match error.root() {
        LockError::Held { retry_after, .. } => retry_after.unwrap_or_default(),
        _ => Duration::ZERO,
    };
    after.as_secs_f64().ceil().max(1.0).to_string()
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        match self {
            Self::NoSuchAccount => (StatusCode::NOT_FOUND, "no such account\n").into_response(),
            Self::StaleToken => {
                (StatusCode::PRECONDITION_FAILED, "a newer holder has already written\n")
                    .into_response()
            }
        }
    }
}

/// The time at which a request arrived, before it waited for the lock.
#[derive(Clone, Copy)]
struct Arrived(Instant);

async fn observe(State(site): State<Site>, mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(Arrived(Instant::now()));
    let response = next.run(request).await;
    site.demo.board.count(&response);
    response
}

/// A round-robin load balancer.
fn balancer(replicas: Vec<Router>) -> Router {
    let turn = Arc::new(AtomicUsize::new(0));
    Router::new().fallback(async move |request: Request| {
        let replica = replicas[turn.fetch_add(1, Relaxed) % replicas.len()].clone();
        replica.oneshot(request).await
    })
}

/// Web pages about the locks of the fleet, and the jobs of one replica. All actions work without a
/// password, as the demo listens on loopback only.
fn dashboard(replica: &Replica, jobs: SchedulerHandle) -> Dashboard {
    let access = by_address(Access::All.by("the demo"));
    Dashboard::new(replica.redlock.clone()).jobs(jobs).access(access)
}

pub(crate) async fn listen(port: u16) -> Result<TcpListener, Box<dyn Error + Send + Sync>> {
    TcpListener::bind(("127.0.0.1", port)).await.map_err(|error| {
        format!("cannot listen on 127.0.0.1:{port}: {error}; choose another port with --port")
            .into()
    })
}

/// Serves until shutdown is requested, then until the current requests are answered. The dashboard
/// shows the `jobs` of the first replica.
pub(crate) async fn serve(
    demo: Arc<Demo>,
    jobs: SchedulerHandle,
    listener: TcpListener,
    mut stop: Stop,
) {
    let dashboard = dashboard(&demo.cluster.replicas[0], jobs);
    let replicas = demo.cluster.replicas.iter().cloned();
    let routers = replicas.map(|replica| router(Arc::clone(&demo), replica)).collect();
    let app = balancer(routers).nest_service("/locks", dashboard);
    let mut stopped = stop.clone();
    let server =
        axum::serve(listener, app).with_graceful_shutdown(async move { stop.requested().await });
    // The shutdown must not wait for a client that does not complete its request, or for a browser
    // that follows the dashboard's events for up to 20 s.
    let limit = async {
        stopped.requested().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        ended = server => ended.expect("axum's server ends only when it is told to"),
        () = limit => {}
    }
}

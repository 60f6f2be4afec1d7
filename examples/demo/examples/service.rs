//! A service as it runs in production: requests under locks, webhooks that are handled once, a job, readiness, metrics, and
//! an orderly end.
//!
//! ```text
//! docker compose -f contrib/compose.yaml up -d
//! cargo run -p demo --example service
//!
//! curl -X POST localhost:9000/accounts/1/withdraw
//! curl -X POST -H 'webhook-id: 7' localhost:9000/hooks/shop
//! curl localhost:9000/ready
//! curl localhost:9000/metrics
//! ```
//!
//! `REDLOCK_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3` names other servers than those of
//! `contrib/compose.yaml`. `LISTEN` is the address to listen on. Ctrl-C or SIGTERM stops it.

use std::{env, error::Error, future::IntoFuture as _, io, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    routing::{get, post},
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::Notify,
    time,
};
use tower_redlock::{
    Job, JobContext, LockContext, OnceLayer, Redlock, RedlockLayer, Schedule, Scheduler, key,
};

/// Maximum time for requests, and then for runs of jobs, to end after a signal.
const GRACE: Duration = Duration::from_secs(10);
const SERVERS: &str = "redis://127.0.0.1:7001,redis://127.0.0.1:7002,redis://127.0.0.1:7003";

fn app(redlock: Redlock, metrics: PrometheusHandle) -> Router {
    let account = key::path_param("id").parsed::<u64>().prefixed("account:");
    let per_account = RedlockLayer::new(redlock.clone(), account);
    let per_account = per_account.wait(Duration::from_secs(2)).http();
    let once = OnceLayer::new(redlock.clone(), "shop", key::header("webhook-id"));
    let once = once.wait(Duration::from_secs(5)).http();
    Router::new()
        .route("/accounts/{id}/withdraw", post(withdraw).route_layer(per_account))
        // Add the layer that verifies signatures after this one, so that it runs first.
        .route("/hooks/shop", post(async || "handled\n").route_layer(once))
        .route("/ready", get(ready))
        .route("/metrics", get(async move || metrics.render()))
        .with_state(redlock)
}

async fn withdraw(Path(id): Path<u64>, lock: LockContext) -> String {
    // Pass the token along with each write: see the examples `axum` and `fencing`.
    format!("withdrawn from account {id} under token {}\n", lock.fencing_token())
}

/// For load balancers. Not a liveness probe: a restart of this process repairs no server.
async fn ready(State(redlock): State<Redlock>) -> Result<(), (StatusCode, String)> {
    redlock.readiness().map_err(|error| (StatusCode::SERVICE_UNAVAILABLE, error.to_string()))
}

async fn report(cx: JobContext) {
    println!("the report of tick {}, under token {}", cx.tick(), cx.fencing_token());
}

/// Installs the recorder of metrics: before the manager is built, which describes its metrics then.
fn recorder() -> Result<PrometheusHandle, Box<dyn Error>> {
    // From milliseconds (locks) to hours (runs of jobs).
    let seconds = [
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0,
        3600.0,
    ];
    let builder = PrometheusBuilder::new();
    let builder = builder.set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &seconds)?;
    Ok(builder.install_recorder()?)
}

/// Waits for Ctrl-C or SIGTERM.
async fn signalled() -> io::Result<()> {
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().init();
    let metrics = recorder()?;
    let upkeep = metrics.clone();
    tokio::spawn(async move {
        let mut interval = time::interval(Duration::from_secs(5));
        loop {
            interval.tick().await;
            upkeep.run_upkeep();
        }
    });
    let servers = env::var("REDLOCK_NODES").unwrap_or_else(|_| SERVERS.into());
    let redlock = Redlock::builder().nodes(servers.split(',')).build()?;
    // A new or restarted server votes after `max_ttl` (10 s): it may have forgotten locks.
    redlock.ready_within(Duration::from_secs(60)).await?;
    let minutely = Job::new("report", Schedule::every(Duration::from_secs(60)), report);
    let jobs = Scheduler::new(redlock.clone()).job(minutely).start()?;

    let listen = env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:9000".into());
    let listener = TcpListener::bind(listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop).notified_owned();
    let server =
        axum::serve(listener, app(redlock.clone(), metrics)).with_graceful_shutdown(stopped);
    let limit = async {
        signalled().await?;
        stop.notify_one();
        time::sleep(GRACE).await;
        Ok::<_, io::Error>(())
    };
    tokio::select! {
        ended = server.into_future() => ended?,
        late = limit => {
            late?;
            eprintln!("requests are still under way {GRACE:?} after the signal: they are dropped");
        }
    }
    // First the work, then its locks: this waits until the servers have acknowledged every release and record.
    jobs.shutdown(GRACE).await;
    redlock.shutdown().await;
    Ok(())
}

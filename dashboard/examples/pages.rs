//! The dashboard next to the routes of an axum service, with locks and a job to look at.
//!
//! ```text
//! cargo run -p tower-redlock-dashboard --example pages
//! ```
//!
//! Then open the address that it prints. Over real servers with
//! `REDLOCK_NODES=redis://…,redis://…,redis://…`.

use std::{convert::Infallible, error::Error, time::Duration};

use axum::{Router, routing::get};
use tokio::net::TcpListener;
use tower_redlock::{Job, Redlock, Schedule, Scheduler};
use tower_redlock_dashboard::{Access, BasicAuth, Dashboard};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let redlock = match std::env::var("REDLOCK_NODES") {
        Ok(nodes) => Redlock::builder().nodes(nodes.split(',')).build()?,
        Err(_) => Redlock::embedded(),
    };
    let report = Job::new("report", Schedule::every(Duration::from_secs(10)), |_| async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        Ok::<_, Infallible>(())
    });
    let scheduler = Scheduler::new(redlock.clone()).jobs([report]).start()?;
    tokio::spawn(work(redlock.clone()));

    // In your service: from its configuration.
    let password =
        std::env::var("DASHBOARD_PASSWORD").unwrap_or_else(|_| "only for this example".into());
    let access = BasicAuth::new("locks").user("ann", &password, Access::All).user(
        "guest",
        "guest",
        Access::ReadOnly,
    );
    let dashboard = Dashboard::new(redlock.clone()).jobs(scheduler.clone()).access(access);

    let app = Router::new()
        .route("/", get(|| async { "the service itself" }))
        .nest_service("/admin/locks", dashboard.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://guest:guest@{}/admin/locks/", listener.local_addr()?);
    // Without this, a browser that follows the events would delay the end by up to 20 s.
    let stopped = async move {
        let _ = tokio::signal::ctrl_c().await;
        dashboard.end_streams();
    };
    axum::serve(listener, app).with_graceful_shutdown(stopped).await?;
    scheduler.shutdown(Duration::from_secs(5)).await;
    redlock.shutdown().await;
    Ok(())
}

/// Five workers that contend for three accounts.
async fn work(redlock: Redlock) {
    let workers = (0..5_u64).map(|worker| {
        let redlock = redlock.clone();
        async move {
            for turn in worker.. {
                let name = format!("account:{}", turn % 3);
                let held = redlock.lock(name.as_str()).wait(Duration::from_secs(30));
                let _ = held.run(|_| tokio::time::sleep(Duration::from_millis(900))).await;
            }
        }
    });
    futures_util::future::join_all(workers).await;
}

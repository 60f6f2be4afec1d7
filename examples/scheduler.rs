//! A periodic job: each tick runs on one replica of the service.
//!
//! ```text
//! cargo run --example scheduler --features scheduler
//! ```
//!
//! `REDLOCK_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3` names the servers; without
//! it, the nodes are inside the process. With it, start several replicas and kill one: the others
//! continue. Ctrl-C stops it.

use std::{
    env, io,
    time::{Duration, SystemTime},
};

use tokio::{signal, time::sleep};
use tower_redlock::{Job, JobContext, Redlock, Schedule, Scheduler, scheduler::Missed};

/// A tick is one point of the schedule. `scheduled_at` is the same on every replica, so it can name
/// the subject of the run.
async fn report(cx: JobContext) -> Result<(), io::Error> {
    let tick = cx.scheduled_at().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    println!("tick {}, token {}, started late by {:?}", tick.as_secs(), token(&cx), cx.lateness());
    for page in 1..=3 {
        // Checks after each step whether the lock is still held.
        cx.ensure_valid().map_err(io::Error::other)?;
        sleep(Duration::from_millis(100)).await;
        println!("  page {page} of the report");
    }
    Ok(())
}

/// Returns the token for the store of the report, which rejects writes of a run with an older
/// token.
fn token(cx: &JobContext) -> u64 {
    cx.fencing_token().get()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let redlock = match env::var("REDLOCK_NODES") {
        Ok(urls) => Redlock::builder().nodes(urls.split(',')).build()?,
        Err(_) => Redlock::embedded(),
    };

    // With the feature `cron`: Schedule::cron("0 3 * * *")?.in_tz("Europe/Berlin")?
    let every_two_seconds = Schedule::every(Duration::from_secs(2));
    let report = Job::new("report", every_two_seconds, report)
        .missed(Missed::RunLatest)
        .retries(3)
        .max_run(Duration::from_secs(60));
    let jobs = Scheduler::new(redlock.clone()).job(report).start()?;
    println!("the job runs every 2 s; Ctrl-C stops it");

    signal::ctrl_c().await?;
    // Gives a run 10 s to end, then drops it.
    jobs.shutdown(Duration::from_secs(10)).await;
    // Waits until the nodes have acknowledged every release.
    redlock.shutdown().await;
    Ok(())
}

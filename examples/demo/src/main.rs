//! A small bank: withdrawals that run one at a time per account, and a report that only one of
//! three replicas makes.
//!
//! ```text
//! cargo run -p demo                  serve until Ctrl-C
//! cargo run -p demo -- --drive 200   send itself 200 requests, and count
//! cargo run -p demo -- --check       the same on a free port, then check
//!
//! curl -X POST http://127.0.0.1:8080/accounts/1/withdraw
//! ```
//!
//! Three replicas of the service run in this process behind one port, each with a lock manager of its
//! own. They share nodes inside the process or, with `REDLOCK_NODES=redis://…,redis://…,redis://…`,
//! real servers. The data that the locks guard is in memory.
//!
//! Read first: `server.rs` (the layer, and its errors as responses) and `job.rs` (the scheduler).
//! `cluster.rs` connects; the other files send requests, count and draw. The pages under `/locks/`
//! come from tower-redlock-dashboard. Without `--drive`, the demo sends itself a few requests a
//! second.

mod args;
mod board;
mod cluster;
mod drive;
mod job;
mod ledger;
mod load;
mod server;
mod stop;
mod view;

use std::{error::Error, process::ExitCode, sync::Arc, time::Duration};

use futures_util::future::join_all;
use tokio::task::JoinHandle;
use tower_redlock::SchedulerHandle;

use crate::{
    args::{Args, Command},
    board::Board,
    cluster::Cluster,
    drive::{Progress, Tally},
    job::Report,
    ledger::Ledger,
    stop::Signals,
};

/// The state that all parts of the demo share.
struct Demo {
    url: String,
    cluster: Cluster,
    ledger: Ledger,
    report: Report,
    board: Board,
    progress: Progress,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = match args::parse(std::env::args().skip(1)) {
        Ok(Command::Run(args)) => args,
        Ok(Command::Help) => {
            print!("{}", args::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("demo: {error}\n\n{}", args::USAGE);
            return ExitCode::from(2);
        }
    };
    match run(&args).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("demo: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<ExitCode, Box<dyn Error + Send + Sync>> {
    let mut signals = Signals::listen()?;
    let listener = server::listen(args.port).await?;
    let url = format!("http://{}", listener.local_addr()?);
    println!("{url}/locks/ shows the locks, the jobs and the nodes: open it in a browser");
    let demo = Arc::new(Demo {
        url,
        cluster: Cluster::start().await?,
        ledger: Ledger::default(),
        report: Report::default(),
        board: Board::default(),
        progress: Progress::new(args.drive.unwrap_or(0)),
    });
    let replicas = demo.cluster.replicas.iter();
    let jobs = replicas.map(|replica| job::start(&demo, replica)).collect::<Result<Vec<_>, _>>()?;
    let (stopper, stop) = stop::channel();
    let server = server::serve(Arc::clone(&demo), jobs[0].clone(), listener, stop);
    let server = tokio::spawn(server);
    let (view_stopper, view_stop) = stop::channel();
    let view = tokio::spawn(view::show(Arc::clone(&demo), view_stop));

    let driven = tokio::select! {
        () = signals.next() => None,
        tally = work(&demo, args) => Some(tally),
    };

    stopper.stop();
    tokio::select! {
        ended = shut_down(&demo, &jobs, server) => ended?,
        () = signals.next() => return Err("stopped at once: keys may remain for a TTL".into()),
    }
    view_stopper.stop();
    view.await?;
    Ok(match driven {
        Some(tally) => drive::verdict(&demo, &tally, args.check),
        None if args.drive.is_some() => return Err("interrupted".into()),
        None => ExitCode::SUCCESS,
    })
}

/// Drives the demo. Without `--drive`, sends a light load and does not return.
async fn work(demo: &Demo, args: &Args) -> Tally {
    if args.drive.is_none() {
        load::run(demo).await;
        return std::future::pending().await;
    }
    let tally = drive::drive(demo).await;
    if args.check {
        let ticks = demo.report.wait_for(job::TICKS_TO_CHECK);
        // The report shows if there were too few ticks.
        let _ = tokio::time::timeout(Duration::from_secs(10), ticks).await;
    }
    tally
}

/// Waits for the current runs and requests, then until the nodes have acknowledged every release.
async fn shut_down(
    demo: &Demo,
    jobs: &[SchedulerHandle],
    server: JoinHandle<()>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    join_all(jobs.iter().map(|jobs| jobs.shutdown(job::GRACE))).await;
    server.await?;
    demo.cluster.shutdown().await;
    Ok(())
}

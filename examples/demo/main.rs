//! A small bank: withdrawals that run one at a time per account, and a report that only one of
//! three replicas makes.
//!
//! ```text
//! cargo run --release --example demo                  serve until Ctrl-C
//! cargo run --release --example demo -- --drive 200   send itself 200 requests, and count
//! cargo run --release --example demo -- --check       the same on a free port, then judge
//!
//! curl -X POST http://127.0.0.1:8080/accounts/1/withdraw
//! ```
//!
//! Three replicas of the service run in this process, each with a lock manager of its own, behind
//! one port that passes requests on to them in turn. They share nodes inside the process or, with
//! `REDLOCK_NODES=redis://…,redis://…,redis://…`, real servers; the data that they guard is in
//! memory.
//!
//! Read first: `server.rs` (the layer, and its errors as responses) and `job.rs` (one lock around
//! a future). `cluster.rs` connects; the rest drives, counts and draws.

mod args;
mod board;
mod cluster;
mod drive;
mod job;
mod ledger;
mod overlap;
mod server;
mod stop;
mod verdict;
mod view;

use std::{error::Error, process::ExitCode, sync::Arc, time::Duration};

use tokio::{net::TcpListener, task::JoinSet};

use crate::{
    args::{Args, Command},
    board::Board,
    cluster::Cluster,
    drive::{Progress, Tally},
    job::Report,
    ledger::Ledger,
    stop::{Signals, Stop},
};

/// What all parts of the demo share.
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

async fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let mut signals = Signals::listen()?;
    let listener = server::listen(args.port).await?;
    let demo = Arc::new(Demo {
        url: format!("http://{}", listener.local_addr()?),
        cluster: Cluster::start().await?,
        ledger: Ledger::default(),
        report: Report::default(),
        board: Board::default(),
        progress: Progress::new(args.drive.unwrap_or(0)),
    });
    let (stopper, stop) = stop::channel();
    let parts = spawn(&demo, listener, &stop);
    let (view_stopper, view_stop) = stop::channel();
    let view = tokio::spawn(view::show(Arc::clone(&demo), view_stop));

    let driven = tokio::select! {
        () = signals.next() => None,
        tally = work(&demo, args) => Some(tally),
    };

    stopper.stop();
    tokio::select! {
        ended = wind_down(&demo, parts) => ended?,
        () = signals.next() => return Err("stopped at once: keys may stay for a TTL".into()),
    }
    view_stopper.stop();
    view.await?;
    Ok(match driven {
        Some(tally) => verdict::print(&demo, &tally, args.check),
        None if args.drive.is_some() => return Err("interrupted".into()),
        None => ExitCode::SUCCESS,
    })
}

/// Starts the server, and each replica's loop for the report.
fn spawn(demo: &Arc<Demo>, listener: TcpListener, stop: &Stop) -> JoinSet<()> {
    let mut parts = JoinSet::new();
    parts.spawn(server::serve(Arc::clone(demo), listener, stop.clone()));
    for replica in demo.cluster.replicas.clone() {
        parts.spawn(job::run(Arc::clone(demo), replica, stop.clone()));
    }
    parts
}

/// What the demo does by itself; nothing, and for ever, where it only serves.
async fn work(demo: &Demo, args: &Args) -> Tally {
    if args.drive.is_none() {
        return std::future::pending().await;
    }
    let tally = drive::drive(demo).await;
    if args.check {
        let ticks = demo.report.wait_for(job::TICKS_TO_CHECK);
        // Too few ticks are the verdict's affair.
        let _ = tokio::time::timeout(Duration::from_secs(10), ticks).await;
    }
    tally
}

/// Waits for the parts that were told to stop, then until the nodes know of every release.
async fn wind_down(demo: &Demo, mut parts: JoinSet<()>) -> Result<(), Box<dyn Error>> {
    while let Some(ended) = parts.join_next().await {
        ended?;
    }
    demo.cluster.shutdown().await;
    Ok(())
}

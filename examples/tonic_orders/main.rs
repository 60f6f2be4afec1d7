//! An orders service over gRPC: calls for one order run one at a time, whichever of three servers
//! they reach, and an order does not change while its lines are streamed.
//!
//! ```text
//! cargo run --release --example tonic_orders --features tonic              send itself some calls
//! cargo run --release --example tonic_orders --features tonic -- --check   many calls at once
//! ```
//!
//! Three servers run in this process, each with a lock manager of its own and on a port of its own,
//! and the clients that call them. They share nodes inside the process or, with
//! `REDLOCK_NODES=redis://…,redis://…,redis://…`, real servers; the data that they guard is in
//! memory.
//!
//! Read first: `service.rs` (the layer, a stream under its lock, and a lock for a key from the
//! message) and `client.rs` (which statuses to try again, and when). `orders.proto` is the service;
//! the code in `generated` is made from it by `cargo run --package tower-redlock-codegen`.

mod args;
mod book;
mod client;
mod cluster;
mod drive;
#[path = "../support/nodes.rs"]
mod nodes;
mod overlap;
mod server;
mod service;
mod verdict;

/// What `orders.proto` gives.
mod orders {
    #![allow(clippy::all, clippy::pedantic, missing_docs, unreachable_pub, reason = "generated")]
    include!("generated/orders.v1.rs");
}

use std::{error::Error, process::ExitCode, sync::Arc};

use crate::{
    args::{Args, Command},
    book::Book,
    cluster::Cluster,
    drive::Tally,
    server::Servers,
};

#[tokio::main]
async fn main() -> ExitCode {
    let args = match args::parse(std::env::args().skip(1)) {
        Ok(Command::Run(args)) => args,
        Ok(Command::Help) => {
            print!("{}", args::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("tonic_orders: {error}\n\n{}", args::USAGE);
            return ExitCode::from(2);
        }
    };
    match run(&args).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tonic_orders: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<ExitCode, Box<dyn Error + Send + Sync>> {
    let cluster = Cluster::start().await?;
    let book = Arc::new(Book::default());
    let servers = Servers::start(&cluster, &book).await?;
    let channels = servers.connect().await?;

    let tally: Option<Tally> = tokio::select! {
        tally = drive::drive(channels, args.calls) => Some(tally),
        pressed = tokio::signal::ctrl_c() => pressed.map(|()| None)?,
    };

    // The clients are gone by now, and with them every call.
    servers.stop().await?;
    cluster.shutdown().await;
    let tally = tally.ok_or("interrupted")?;
    Ok(verdict::print(&cluster, &book, &tally))
}

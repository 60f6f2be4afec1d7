//! A holder that is late: frozen for longer than its lock was valid, it wakes up and writes. The
//! storage turns that write away by its fencing token, and the new holder's write stands.
//!
//! ```text
//! cargo run --release --example fencing              one round
//! cargo run --release --example fencing -- --check   three rounds, then judge
//!
//! REDLOCK_NODES=redis://…,redis://…,redis://… cargo run --release --example fencing
//! ```
//!
//! With `REDLOCK_NODES`, each worker is a process, and the one that is to be late is stopped with
//! SIGSTOP (on other systems than Unix it blocks). Without, the nodes live in this process, and so
//! do the workers: the late one blocks its thread inside a poll, which is what no lock can stop.
//!
//! Read first: `storage.rs` (the layer, in front of what is written) and `worker.rs` (a holder that
//! does everything right but for being late). `story.rs` directs them, `actors.rs` starts, freezes
//! and thaws them; the rest counts.

mod actors;
mod args;
#[path = "../support/nodes.rs"]
mod nodes;
mod storage;
mod story;
mod verdict;
mod worker;

use std::{error::Error, process::ExitCode};

use crate::{
    actors::Company,
    args::{Command, Part, USAGE},
    nodes::Nodes,
    storage::Storage,
};

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    let done = match args::parse(std::env::args().skip(1)) {
        Ok(Command::Story { rounds }) => story(rounds).await,
        Ok(Command::Worker(part)) => work(part).await.map(|()| ExitCode::SUCCESS),
        Ok(Command::Help) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("fencing: {error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    done.unwrap_or_else(|error| {
        eprintln!("fencing: {error}");
        ExitCode::FAILURE
    })
}

async fn story(rounds: usize) -> Result<ExitCode, Failure> {
    let nodes = Nodes::from_env();
    nodes.wait_until_ready().await?;
    let storage = Storage::open().await?;
    let company = Company { storage: storage.addr, nodes };
    let shelf = storage.shelf.clone();
    let tally =
        tokio::task::spawn_blocking(move || story::play(rounds, &company, &shelf)).await??;
    Ok(verdict::print(rounds, &tally, &storage.shelf))
}

/// What a worker's process does: it speaks on standard output, and hears on standard input.
async fn work(part: Part) -> Result<(), Failure> {
    let redlock = Nodes::from_env().builder().owner(&part.name).build()?;
    let say = |line: String| println!("{line}");
    let hear = || std::io::stdin().read_line(&mut String::new()).is_ok_and(|bytes| bytes > 0);
    // A process that is stopped renews nothing; one that only blocks would.
    worker::work(&redlock, &part, cfg!(unix), say, hear).await?;
    redlock.shutdown().await;
    Ok(())
}

//! A job that three replicas schedule: each tick runs on one of them, once, though their clocks are
//! apart and one of them is killed in the middle of a run.
//!
//! ```text
//! cargo run --release --example scheduler              until Ctrl-C
//! cargo run --release --example scheduler -- --check   some seconds, then judge
//!
//! REDLOCK_NODES=redis://…,redis://…,redis://… cargo run --release --example scheduler
//! ```
//!
//! With `REDLOCK_NODES`, each replica is a process, and killed is SIGKILL: nobody gives its lock
//! back, so ticks are lost until that has expired. Without, the nodes live in this process, and so do
//! the replicas, each with a runtime of its own: of one that is killed all tasks are dropped, and its
//! lock is given back on the way.
//!
//! Read first: `replica.rs` (the job, its scheduler, and how both are stopped). `story.rs` tells who
//! is killed when, `fleet.rs` starts and kills replicas; the rest prints and counts.

mod args;
mod clock;
mod fleet;
#[path = "../support/nodes.rs"]
mod nodes;
mod replica;
mod said;
mod story;
mod table;
mod verdict;

use std::{error::Error, process::ExitCode};

use crate::{
    args::{Command, USAGE},
    fleet::Fleet,
    nodes::Nodes,
};

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    let done = match args::parse(std::env::args().skip(1)) {
        Ok(Command::Story { check }) => story(check).await,
        Ok(Command::Replica(number)) => fleet::be(number).await.map(|()| ExitCode::SUCCESS),
        Ok(Command::Help) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("scheduler: {error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    done.unwrap_or_else(|error| {
        eprintln!("scheduler: {error}");
        ExitCode::FAILURE
    })
}

async fn story(check: bool) -> Result<ExitCode, Failure> {
    let nodes = Nodes::from_env();
    nodes.wait_until_ready().await?;
    let (mut fleet, said) = Fleet::start(nodes)?;
    let table = story::play(&mut fleet, said, check).await?;
    Ok(verdict::print(&table, fleet.keys_left(), check))
}

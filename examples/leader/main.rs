//! Three candidates, of which one leads. The leader is killed, and another takes over; at the end
//! the leader leaves, and another follows at once.
//!
//! ```text
//! cargo run --release --example leader              one leader is killed
//! cargo run --release --example leader -- --check   three are, then judge
//!
//! REDLOCK_NODES=redis://…,redis://…,redis://… cargo run --release --example leader
//! ```
//!
//! With `REDLOCK_NODES`, each candidate is a process, and the leader is killed with SIGKILL.
//! Without, the nodes live in this process, and so do the candidates: the leader's connections are
//! cut before it is dropped, so that the nodes hear nothing of its end.
//!
//! Read first: `candidate.rs`, which is all that a service needs. `company.rs` starts and kills
//! candidates, `story.rs` directs, the rest counts.

mod args;
mod candidate;
mod company;
#[path = "../support/nodes.rs"]
mod nodes;
mod story;
mod verdict;

use std::{error::Error, process::ExitCode};

use crate::{
    args::{Command, USAGE},
    nodes::Nodes,
};

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    let done = match args::parse(std::env::args().skip(1)) {
        Ok(Command::Story { rounds }) => story(rounds).await,
        Ok(Command::Candidate { name }) => stand(&name).await.map(|()| ExitCode::SUCCESS),
        Ok(Command::Help) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("leader: {error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    done.unwrap_or_else(|error| {
        eprintln!("leader: {error}");
        ExitCode::FAILURE
    })
}

async fn story(rounds: usize) -> Result<ExitCode, Failure> {
    let nodes = Nodes::from_env();
    nodes.wait_until_ready().await?;
    let tally = story::play(rounds, nodes).await?;
    Ok(verdict::print(rounds, &tally))
}

/// What a candidate's process does: it tells on standard output when it works, and leaves when its
/// standard input ends, as it does when the director is gone.
async fn stand(name: &str) -> Result<(), Failure> {
    let redlock = Nodes::from_env().builder().owner(name).build()?;
    let (leave, leaves) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = leave.send(());
    });
    let tell = |tick: candidate::Tick| println!("{tick}");
    candidate::stand(&redlock, tell, async { drop(leaves.await) }).await?;
    redlock.shutdown().await;
    Ok(())
}

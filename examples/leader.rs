//! One replica of the service leads; another takes over when it stops or dies.
//!
//! ```text
//! cargo run --example leader --features scheduler
//! ```
//!
//! `REDLOCK_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3` names the servers; without it,
//! the nodes are inside the process. With it, start several replicas and end the leader: after
//! Ctrl-C another one leads at once, after `kill -9` within 5.5 s (the TTL and a tenth of it).

use std::{env, error::Error, io, process, time::Duration};

use tokio::{signal, time::interval};
use tower_redlock::{Redlock, Term, error::LossCause, node::EmbeddedNodes};

/// The work of a leader. The future is dropped before the lock's validity ends.
async fn bill(term: Term) -> Result<(), io::Error> {
    let token = term.fencing_token();
    println!("leading; token {token}");
    let mut next = interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            // The store that bills go to rejects writes of a former leader by the token.
            _ = next.tick() => println!("billing under token {token}"),
            // The process is stopping, or the lock is about to end.
            () = term.stopping() => return Ok(()),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let builder = match env::var("REDLOCK_NODES") {
        Ok(urls) => Redlock::builder().nodes(urls.split(',')),
        Err(_) => Redlock::builder().nodes_from(&EmbeddedNodes::new(5)),
    };
    let redlock = builder.owner(format!("billing-{}", process::id())).build()?;

    let leader = redlock
        .leader("billing")
        .ttl(Duration::from_secs(5))
        .on_lost(|cause: LossCause| eprintln!("no longer the leader: {cause}"));
    println!("candidate {}; Ctrl-C stops it", process::id());
    tokio::select! {
        // Campaigns again after a term that was lost or failed.
        ended = leader.run_until_stopped(bill) => ended?,
        stopped = async {
            signal::ctrl_c().await?;
            leader.stop().await;
            io::Result::Ok(())
        } => stopped?,
    }
    // Waits until the nodes have acknowledged the release.
    redlock.shutdown().await;
    println!("stopped");
    Ok(())
}

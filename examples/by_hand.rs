//! A lock that is held by hand: acquired, checked, watched and released.
//!
//! ```text
//! cargo run --example by_hand
//! ```
//!
//! `REDLOCK_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3` names the servers; without it,
//! the nodes are inside the process. It ends by itself.

use std::{env, error::Error, time::Duration};

use tokio::time::sleep;
use tower_redlock::{LockError, Redlock};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let redlock = match env::var("REDLOCK_NODES") {
        Ok(urls) => Redlock::builder().nodes(urls.split(',')).build()?,
        Err(_) => Redlock::embedded(),
    };
    // A new or restarted server votes after `max_ttl` (10 s): it may have forgotten locks.
    redlock.ready_within(Duration::from_secs(60)).await?;

    // Around a future, which is dropped before the lock's validity ends. Prefer this where you can.
    let request = redlock.lock("invoice:42").wait(Duration::from_secs(2));
    let total = request.run(async |lock| bill(lock.fencing_token().get()).await).await?;
    println!("billed {total}");

    // By hand, two names at once. The lock is renewed until it is released, dropped or lost.
    let lock = redlock.lock(["account:1", "account:2"]).await?;
    println!(
        "locked {} for {:?}, token {}",
        lock.resource(),
        lock.remaining(),
        lock.fencing_token()
    );

    // The error says what happened and what to do next.
    match redlock.lock("account:2").await {
        Err(LockError::Held { retry_after, .. }) => println!("held; try again in {retry_after:?}"),
        Err(LockError::NoQuorum { .. }) => println!("too few nodes answered"),
        other => println!("{other:?}"),
    }

    // Nothing stops this code at the end of the lock, so it watches for that itself.
    tokio::select! {
        () = move_money() => println!("moved; still valid: {}", lock.is_valid()),
        cause = lock.lost() => return Err(format!("the lock was lost: {cause}").into()),
    }
    // Waits for a quorum's acknowledgement. Dropping the lock releases it in the background.
    println!("{:?}", lock.release().await?);

    // Without renewal the lock ends with its TTL.
    let lock = redlock.lock("job").ttl(Duration::from_millis(500)).auto_extend(false).await?;
    println!("valid for another {:?} after an extension", lock.extend().await?);
    println!("lost: {}", lock.lost().await);

    // Before the end of the process: waits until the nodes have acknowledged every release.
    redlock.shutdown().await;
    Ok(())
}

async fn bill(token: u64) -> u64 {
    sleep(Duration::from_millis(50)).await;
    println!("billing under token {token}");
    7
}

async fn move_money() {
    sleep(Duration::from_millis(50)).await;
}

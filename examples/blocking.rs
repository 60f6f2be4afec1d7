//! A program without a runtime: threads that run one at a time, under a lock.
//!
//! ```text
//! cargo run --example blocking
//! ```
//!
//! `REDLOCK_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3` names the servers; without it,
//! the nodes are inside the process. It ends by itself.

use std::{env, error::Error, thread, time::Duration};

use tower_redlock::{LockContext, LockError, Redlock};

fn main() -> Result<(), Box<dyn Error>> {
    let manager = match env::var("REDLOCK_NODES") {
        Ok(urls) => Redlock::builder().nodes(urls.split(',')).build()?,
        Err(_) => Redlock::embedded(),
    };
    let redlock = manager.blocking();
    // A new or restarted server votes after `max_ttl` (10 s): it may have forgotten locks.
    redlock.ready_within(Duration::from_secs(60))?;

    // Around a closure. It is not stopped from outside, so it checks the lock before each step.
    thread::scope(|scope| {
        let workers = ["blue", "green"].map(|worker| {
            let request = redlock.lock("reindex").wait(Duration::from_secs(5));
            scope.spawn(move || request.try_run(|cx| reindex(worker, &cx)))
        });
        for worker in workers {
            println!("{} pages", worker.join().expect("it does not panic")?);
        }
        Ok::<_, Box<dyn Error>>(())
    })?;

    // By hand. The lock is renewed until it is released, dropped or lost.
    let lock = redlock.lock("report").ttl(Duration::from_secs(5)).acquire()?;
    match redlock.lock("report").acquire() {
        Err(LockError::Held { retry_after, .. }) => println!("held; try again in {retry_after:?}"),
        other => println!("{other:?}"),
    }
    lock.ensure_valid()?;
    println!("reported under token {}", lock.fencing_token());
    println!("{:?}", lock.release()?);

    // Before the end of the process: waits until the nodes have acknowledged every release.
    redlock.shutdown();
    Ok(())
}

fn reindex(worker: &str, cx: &LockContext) -> Result<usize, LockError> {
    const PAGES: usize = 3;
    for page in 1..=PAGES {
        // Each step is shorter than the TTL. The error comes before the validity ends.
        cx.ensure_valid()?;
        println!("{worker}: page {page}, under token {}", cx.fencing_token());
        thread::sleep(Duration::from_millis(10));
    }
    Ok(PAGES)
}

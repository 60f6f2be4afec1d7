//! A plain tower service, with `Timeout`, `ConcurrencyLimit` and `Retry` around and under the lock.
//!
//! ```text
//! cargo run --example tower --features http
//! ```
//!
//! `REDLOCK_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3` names the servers; without it,
//! the nodes are inside the process. It ends by itself.

use std::{
    env,
    error::Error,
    future::{Ready, ready},
    io,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use tower::{BoxError, Service, ServiceBuilder, ServiceExt, retry::Policy, service_fn};
use tower_redlock::{LockContext, Redlock, RedlockLayer};

#[derive(Clone)]
struct Charge {
    account: u64,
    cents: u32,
}

/// Calls a service outside, which fails now and then.
async fn charge(charge: Charge) -> Result<String, BoxError> {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let token = LockContext::current().expect("it runs under the lock").fencing_token();
    if CALLS.fetch_add(1, Ordering::Relaxed) == 0 {
        println!("account {}: failed under token {token}", charge.account);
        return Err(io::Error::from(io::ErrorKind::ConnectionReset).into());
    }
    println!("account {}: charged {} cents under token {token}", charge.account, charge.cents);
    Ok(format!("{} cents", charge.cents))
}

/// The number of times that a call is repeated if it fails.
#[derive(Clone)]
struct Repeats(u32);

impl Policy<Charge, String, BoxError> for Repeats {
    type Future = Ready<()>;

    fn retry(
        &mut self,
        _: &mut Charge,
        result: &mut Result<String, BoxError>,
    ) -> Option<Ready<()>> {
        self.0 = self.0.checked_sub(1)?;
        result.is_err().then(|| ready(()))
    }

    fn clone_request(&mut self, charge: &Charge) -> Option<Charge> {
        Some(charge.clone())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let redlock = match env::var("REDLOCK_NODES") {
        Ok(urls) => Redlock::builder().nodes(urls.split(',')).build()?,
        Err(_) => Redlock::embedded(),
    };
    // A new or restarted server votes after `max_ttl` (10 s): it may have forgotten locks.
    redlock.ready_within(Duration::from_secs(60)).await?;

    let account = |charge: &Charge| format!("account:{}", charge.account);
    // The first layer is the outermost one.
    let mut service = ServiceBuilder::new()
        // Bounds everything: the wait for the lock and all attempts.
        .timeout(Duration::from_secs(10))
        // At most 100 requests of this process run or wait for their locks.
        .concurrency_limit(100)
        .layer(RedlockLayer::new(redlock.clone(), account).wait(Duration::from_secs(5)))
        // Under the lock: the attempts have one fencing token, and no other charge of the account comes between. `Retry`
        // around the lock would repeat a charge whose lock was lost, and that may have been made. To wait for a held
        // lock, use `wait`: the release wakes it.
        .retry(Repeats(2))
        // Bounds each attempt.
        .timeout(Duration::from_secs(1))
        .service(service_fn(charge));

    for (account, cents) in [(7, 250), (7, 100), (8, 900)] {
        let answer = service.ready().await?.call(Charge { account, cents }).await?;
        println!("account {account}: {answer}");
    }
    // Waits until the nodes have acknowledged every release.
    redlock.shutdown().await;
    Ok(())
}

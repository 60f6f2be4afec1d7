//! Tests of code that uses locks: in virtual time, without servers, repeatable.
//!
//! ```text
//! cargo test --example testing --features testing
//! cargo run --example testing --features testing
//! ```
//!
//! The first command runs the tests at the end of this file, the second the program that they test,
//! over nodes inside the process.

use std::time::Duration;

use tokio::time::sleep;
use tower_redlock::{LockError, Redlock};

/// The code to test: imports ten pages, one second each, while no other replica does.
async fn import(redlock: Redlock) -> Result<usize, LockError> {
    let import = async || {
        for page in 1..=10 {
            sleep(Duration::from_secs(1)).await;
            println!("page {page}");
        }
        10
    };
    redlock.lock("import").run(async |_| import().await).await
}

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let redlock = Redlock::embedded();
    let first = tokio::spawn(import(redlock.clone()));
    sleep(Duration::from_millis(100)).await;
    if let Err(error) = import(redlock.clone()).await {
        println!("second import: {error}");
    }
    println!("first import: {} pages", first.await.expect("it does not panic")?);
    redlock.shutdown().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tower_redlock::{
        error::LossCause,
        testing::{ManualClock, Nodes},
    };

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// `start_paused` is needed as the code sleeps by tokio's clock, which moves with the manual
    /// one.
    #[tokio::test(start_paused = true)]
    async fn imports_on_one_replica() {
        let clock = ManualClock::new();
        let nodes = Nodes::new(3, &clock);
        let (blue, green) = (nodes.replica("blue"), nodes.replica("green"));

        let mut first = clock.spawn(import(blue.redlock()));
        clock.advance_with_tokio(SECOND).await;
        let mut second = clock.spawn(import(green.redlock()));
        clock.advance_with_tokio(SECOND).await;
        let refused = second.take().expect("it does not wait").unwrap_err();
        assert!(
            matches!(&refused, LockError::Held { owner, .. } if owner.as_deref() == Some("blue"))
        );

        clock.advance_with_tokio(8 * SECOND).await;
        assert_eq!(first.take().expect("ten seconds have passed").unwrap(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn stops_when_the_lock_is_lost() {
        let clock = ManualClock::new();
        let blue = Nodes::new(3, &clock).replica("blue");
        let mut importing = clock.spawn(import(blue.redlock()));
        clock.advance_with_tokio(SECOND).await;

        // Cut off from a majority, the lock can't be renewed. It ends before its TTL of 10 s.
        blue.partition([0, 1]);
        clock.advance_with_tokio(9 * SECOND).await;
        let stopped = importing.take().expect("the import was dropped").unwrap_err();
        assert!(matches!(stopped, LockError::Lost { cause: LossCause::Expired { .. } }));
    }
}

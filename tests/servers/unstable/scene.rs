//! What a misbehaving server costs.

use std::time::Duration;

use tokio::time::sleep;
use tower_redlock::Redlock;

use crate::support::over;

/// Time after which the pauses between connections have their full length.
const SETTLING: Duration = Duration::from_secs(2);
/// Time over which is counted.
const SPAN: Duration = Duration::from_secs(2);
/// Maximum rate of connections to one server, per second. Pauses are half a second to a second.
const MOST_CONNECTIONS: usize = 3;

/// A manager over one server, that takes locks all the time.
pub(super) struct Unstable {
    redlock: Redlock,
}

impl Unstable {
    pub(super) fn new(url: String) -> Self {
        let builder = over(Redlock::builder(), [url]).ttl(Duration::from_secs(10));
        let builder = builder.node_timeout(Duration::from_millis(200));
        Self { redlock: builder.build().expect("valid settings") }
    }

    /// Runs while locks are taken, and returns what was counted per second, rounded up.
    pub(super) async fn rate(&self, count: impl Fn() -> usize) -> usize {
        let counting = async {
            sleep(SETTLING).await;
            let before = count();
            sleep(SPAN).await;
            (count() - before).div_ceil(usize::try_from(SPAN.as_secs()).unwrap())
        };
        tokio::select! {
            rate = counting => rate,
            () = self.locks() => unreachable!("it has no end"),
        }
    }

    async fn locks(&self) {
        loop {
            if let Ok(lock) = self.redlock.lock("a").await {
                let _ = lock.release().await;
            }
            sleep(Duration::from_millis(2)).await;
        }
    }

    /// Checks that connections are few.
    pub(super) async fn costs_little(&self, connections: impl Fn() -> usize) {
        let rate = self.rate(connections).await;
        assert!(rate <= MOST_CONNECTIONS, "{rate} connections per second");
    }

    pub(super) fn redlock(&self) -> &Redlock {
        &self.redlock
    }
}

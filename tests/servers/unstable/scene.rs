//! The cost of a misbehaving server.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tower_redlock::{Redlock, RedlockBuilder};

use crate::{
    failures::log::{Log, LoggedSpawner},
    support::{eventually_async, over},
};

/// Time after which the pauses between connections have reached their maximum.
const SETTLING: Duration = Duration::from_secs(2);
/// Duration of a count.
const SPAN: Duration = Duration::from_secs(2);
/// Interval between reads of the node's health.
const LOOK: Duration = Duration::from_millis(10);
/// Maximum rate of connections to one server, per second. Pauses are half a second to a second.
const MOST_CONNECTIONS: usize = 3;
/// Maximum number of log lines at INFO and above in a test: twenty changes, the message that there
/// are more, and some lines about locks.
const MOST_LINES: usize = 25;

/// A manager over one server that acquires locks continuously.
pub(super) struct Unstable {
    redlock: Redlock,
    log: Log,
}

impl Unstable {
    pub(super) fn new(url: String) -> Self {
        Self::over([url])
    }

    pub(super) fn over(urls: impl IntoIterator<Item = String>) -> Self {
        Self::with(urls, |builder| builder)
    }

    pub(super) fn with(
        urls: impl IntoIterator<Item = String>,
        set: impl FnOnce(RedlockBuilder) -> RedlockBuilder,
    ) -> Self {
        let log = Log::new();
        let builder = over(Redlock::builder(), urls).spawner(LoggedSpawner::start(&log));
        let builder = builder.ttl(Duration::from_secs(10)).node_timeout(Duration::from_millis(200));
        Self { redlock: set(builder).build().expect("valid settings"), log }
    }

    /// Acquires locks until `counting` is done.
    async fn during<T>(&self, counting: impl Future<Output = T>) -> T {
        let locks = async {
            loop {
                if let Ok(lock) = self.redlock.lock("a").await {
                    let _ = lock.release().await;
                }
                sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::select! {
            counted = counting => counted,
            () = locks => unreachable!("it has no end"),
        }
    }

    /// Returns the count per second, rounded up, once the pauses have reached their maximum.
    pub(super) async fn rate(&self, count: impl Fn() -> usize) -> usize {
        self.during(async {
            sleep(SETTLING).await;
            let before = count();
            sleep(SPAN).await;
            per_second(count() - before)
        })
        .await
    }

    /// Checks that connections and log lines are few, and that one of the reasons is always in the
    /// node's health and in the diagnosis.
    pub(super) async fn costs_little(&self, connections: impl Fn() -> usize, reasons: &[&str]) {
        let is_reason = |text: &str| reasons.iter().any(|it| text.contains(it));
        let rate = self.during(async {
            sleep(SETTLING).await;
            let mut count = None;
            // The node's health has the reason after three broken connections.
            eventually_async("the reason is shown all the time", async || {
                let (before, end) = (connections(), Instant::now() + SPAN);
                while Instant::now() < end && is_reason(&self.health()) {
                    sleep(LOOK).await;
                }
                count = (Instant::now() >= end).then(|| connections() - before);
                count.is_some()
            })
            .await;
            per_second(count.expect("a count"))
        });
        let rate = rate.await;
        assert!(rate <= MOST_CONNECTIONS, "{rate} connections per second");
        self.logs_little();
        let diagnosis = self.redlock.diagnosis().count_keys(false).await;
        assert!(diagnosis.advice.iter().any(|it| is_reason(&it.what)), "{:#?}", diagnosis.advice);
    }

    pub(super) fn logs_little(&self) {
        let lines: usize = ["INFO", "WARN", "ERROR"].iter().map(|it| self.log.count(it)).sum();
        // The lines about each node, and about this process.
        let most = MOST_LINES * (self.redlock.nodes().len() + 1);
        assert!(lines <= most, "{lines} lines: {}", self.log.text());
    }

    pub(super) fn health(&self) -> String {
        self.redlock.health()[0].to_string()
    }

    pub(super) fn redlock(&self) -> &Redlock {
        &self.redlock
    }
}

fn per_second(count: usize) -> usize {
    count.div_ceil(usize::try_from(SPAN.as_secs()).expect("a few"))
}

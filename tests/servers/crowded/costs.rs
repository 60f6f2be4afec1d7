//! Servers that misbehave for a long time: connections, loaded scripts and log lines stay few, and the
//! reason stays visible.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures_util::future::join_all;
use tokio::time::{Instant, sleep};
use tower_redlock::{Redlock, RedlockBuilder, node::redis::RestartGuard};

use crate::fixture::{
    Breaker, Breaks, FakeServer, Log, LoggedSpawner, Reaction, RedisServer, SERVICE,
    eventually_async, fake, in_time, over,
};

/// Time after which the pauses between connections have reached their maximum.
const SETTLING: Duration = Duration::from_secs(2);
/// Duration of a count.
const SPAN: Duration = Duration::from_secs(2);
/// Interval between reads of the node's health.
const READ_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum number of connections to one server during a count. Pauses are half a second to a second.
const MAX_CONNECTIONS: usize = 6;
/// Maximum number of scripts that are loaded during a count: the 13 at connect, and one per use.
const MAX_LOADS: usize = 60;
/// Maximum number of log lines at INFO and above for a node and for the process: twenty changes, the
/// message that there are more, and some lines about locks.
const MAX_LINES: usize = 25;
/// Words in the possible reasons of a broken connection, and in the advice on them.
const BROKEN: &[&str] = &["connection lost", "not connected", "can't be reached"];

/// A manager over misbehaving servers that acquires locks continuously.
struct Unstable {
    redlock: Redlock,
    log: Log,
}

impl Unstable {
    fn over(urls: impl IntoIterator<Item = String>) -> Self {
        Self::with(urls, |builder| builder.ttl(Duration::from_secs(10)))
    }

    fn with(
        urls: impl IntoIterator<Item = String>,
        set: impl FnOnce(RedlockBuilder) -> RedlockBuilder,
    ) -> Self {
        let log = Log::new();
        let builder = over(Redlock::builder(), urls).spawner(LoggedSpawner::start(&log));
        let builder = set(builder.node_timeout(Duration::from_millis(200)));
        Self { redlock: builder.build().expect("valid settings"), log }
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

    /// Checks a count that begins when the pauses have reached their maximum.
    async fn counts_at_most(&self, most: usize, what: &str, count: impl Fn() -> usize) {
        let counted = self.during(async {
            sleep(SETTLING).await;
            let before = count();
            sleep(SPAN).await;
            count() - before
        });
        let counted = counted.await;
        assert!(counted <= most, "{what}: {counted}, at most {most} are expected");
        self.assert_few_lines(what);
    }

    /// Checks that connections and log lines are few, and that one of the reasons is always in the node's
    /// health and in the diagnosis.
    async fn costs_little(&self, what: &str, connections: impl Fn() -> usize, reasons: &[&str]) {
        let is_reason = |text: &str| reasons.iter().any(|it| text.contains(it));
        let counted = self.during(async {
            sleep(SETTLING).await;
            let mut count = None;
            // The node's health has the reason after three broken connections.
            eventually_async(&format!("{what}: the reason is shown all the time"), async || {
                let (before, end) = (connections(), Instant::now() + SPAN);
                while Instant::now() < end && is_reason(&self.redlock.health()[0].to_string()) {
                    sleep(READ_INTERVAL).await;
                }
                count = (Instant::now() >= end).then(|| connections() - before);
                count.is_some()
            })
            .await;
            count.expect("a count")
        });
        let counted = counted.await;
        assert!(counted <= MAX_CONNECTIONS, "{what}: {counted} connections");
        self.assert_few_lines(what);
        let advice = self.redlock.diagnosis().count_keys(false).await.advice;
        assert!(advice.iter().any(|it| is_reason(&it.what)), "{what}: {advice:#?}");
    }

    fn assert_few_lines(&self, what: &str) {
        let lines: usize = ["INFO", "WARN", "ERROR"].iter().map(|it| self.log.count(it)).sum();
        let most = MAX_LINES * (self.redlock.nodes().len() + 1);
        assert!(lines <= most, "{what}: {lines} lines: {}", self.log.text());
    }
}

#[tokio::test]
async fn breaking_connections_cost_little() {
    let server = RedisServer::start();
    let cases = [
        (Breaks::AtOnce, BROKEN),
        // Within the greeting, and within the first health check.
        (Breaks::AfterBytes(100), BROKEN),
        (Breaks::AfterBytes(6_000), BROKEN),
        (Breaks::After(Duration::from_millis(50)), BROKEN),
        (Breaks::After(Duration::from_millis(1_100)), BROKEN),
        // Locks are acquired continuously, so no timeout is shorter than a pause of this test.
        (Breaks::Idle(Duration::from_millis(1)), BROKEN),
        (Breaks::Dripping(Duration::from_millis(5)), &["no greeting", "timed out"]),
        (Breaks::Silent, &["no greeting"]),
    ];
    let checks = cases.map(|(breaks, reasons)| {
        let proxy = Breaker::start([server.addr()], breaks);
        async move {
            let unstable = Unstable::over([proxy.url()]);
            let connections = || proxy.connections();
            unstable.costs_little(&format!("{breaks:?}"), connections, reasons).await;
        }
    });
    join_all(checks).await;
}

#[tokio::test]
async fn errors_after_the_greeting_cost_little() {
    let cases = [
        (Reaction::Close, "connection lost"),
        (Reaction::error("LOADING reading"), "loading"),
        (Reaction::error("NOAUTH Authentication required."), "NOAUTH"),
        (Reaction::error("MOVED 7 10.0.0.1:1"), "10.0.0.1:1"),
        (Reaction::error("BUSY a script"), "busy"),
        (Reaction::error("OOM full"), "out of memory"),
        (Reaction::Reply(b"HTTP/1.1 400 Bad\r\n\r\n".into()), "connection lost"),
    ];
    let checks = cases.map(|(answer, reason)| async move {
        let what = format!("{answer:?}");
        let server = fake::greeting(move |_| answer.clone());
        let unstable = Unstable::over([server.url()]);
        unstable.costs_little(&what, || server.connections(), &[reason]).await;
    });
    join_all(checks).await;
}

/// A Sentinel that reports these masters in turn, each with a greater epoch.
fn sentinel(masters: [std::net::SocketAddr; 2]) -> FakeServer {
    let asked = AtomicUsize::new(0);
    FakeServer::start(move |command| {
        if command[1] != b"MASTER" {
            let at = masters[(asked.fetch_add(1, Ordering::SeqCst) + 1) % masters.len()];
            let parts = [at.ip().to_string(), at.port().to_string()];
            return Reaction::array(&parts.map(|part| Reaction::bulk(&part)));
        }
        let epoch = asked.load(Ordering::SeqCst).to_string();
        Reaction::array(&["config-epoch", &epoch].map(Reaction::bulk))
    })
}

#[tokio::test]
async fn flapping_sentinels_cost_little() {
    let masters = [fake::greeting(fake::granted), fake::greeting(fake::granted)];
    let sentinels = [(); 3].map(|()| sentinel(masters.each_ref().map(FakeServer::addr)));
    let hosts = sentinels.each_ref().map(|it| it.addr().to_string()).join(",");
    let unstable = Unstable::over([format!("redis+sentinel://{hosts}/{SERVICE}")]);
    let connections = || masters.iter().map(FakeServer::connections).sum();
    let moved = ["another server has its keys", "connection lost", "not connected"];
    unstable.costs_little("two masters in turn", connections, &moved).await;
    // Each Sentinel is queried over one connection.
    assert!(sentinels.iter().all(|sentinel| sentinel.connections() == 1));
}

#[tokio::test]
async fn forgotten_scripts_cost_little() {
    let server = fake::greeting(|command| match &*command[0] {
        b"EVALSHA" => Reaction::error("NOSCRIPT No matching script. Please use EVAL."),
        _ => fake::granted(command),
    });
    let unstable = Unstable::over([server.url()]);
    unstable.counts_at_most(MAX_LOADS, "loaded scripts", || server.count("SCRIPT")).await;
}

/// A server whose clock is off by this number of hours at every other reading.
fn jumping(hours: u64) -> FakeServer {
    let (greeter, read) = (fake::Greeter::new(), AtomicUsize::new(0));
    FakeServer::start(move |command| {
        if command[0] == b"TIME" {
            let is_off = read.fetch_add(1, Ordering::SeqCst) % 2 == 1;
            return fake::time_ahead(Duration::from_secs(3_600 * hours) * u32::from(is_off));
        }
        greeter.greet(command).unwrap_or_else(|| fake::granted(command))
    })
}

/// Jumps that are alike have the effect of a pause of this process.
#[tokio::test]
async fn jumping_clocks_cost_little() {
    let checks = [("alike", [1; 3], "node-1"), ("apart", [1, 3, 7], "its clock jumped")].map(
        async |(what, hours, reason)| {
            let servers = hours.map(jumping);
            let unstable = Unstable::over(servers.each_ref().map(FakeServer::url));
            let checks = || servers.iter().map(|server| server.count("HMGET")).sum();
            // Each server has ten health checks a second, and one more for each change of its record.
            unstable.counts_at_most(600, what, checks).await;
            let health = unstable.redlock.health()[0].to_string();
            assert!(health.contains(reason), "{what}: {health}");
        },
    );
    join_all(checks).await;
}

/// One name changes between two servers again and again, with the restart guard.
#[tokio::test]
async fn flapping_name_leaves_other_servers_alone() {
    let (both, others) = (RedisServer::start_n(2), RedisServer::start_n(2));
    let breaks = Breaks::After(Duration::from_millis(200));
    let proxy = Breaker::start(both.iter().map(RedisServer::addr), breaks);
    let urls = [proxy.url(), others[0].url(), others[1].url()];
    let unstable = Unstable::with(urls, |builder| {
        builder.ttl(Duration::from_secs(1)).restart_guard(RestartGuard::Probation)
    });
    // Scripts that are sent by their text: changes of the record, and learning of nodes.
    let texts = |server: &RedisServer| usize::try_from(server.calls("eval")).expect("few calls");
    let most = || texts(&others[0]).max(texts(&others[1]));
    unstable.counts_at_most(20, "changes of the other servers", most).await;
}

/// The connection for votes stays open, and the one for wake-ups ends again and again.
#[tokio::test]
async fn broken_subscriptions_cost_little() {
    let server = fake::greeting(|command| match &*command[0] {
        b"SUBSCRIBE" => Reaction::Close,
        b"EVALSHA" => fake::held(),
        _ => Reaction::simple("PONG"),
    });
    let unstable = Unstable::over([server.url()]);
    in_time(unstable.redlock.ready()).await.unwrap();
    let waiting = unstable.redlock.lock("b").wait(Duration::from_secs(60));
    tokio::select! {
        granted = waiting.into_future() => panic!("{granted:?}"),
        () = unstable.costs_little("subscriptions", || server.connections(), &["wake-ups"]) => {}
    }
}

/// The server of a store of responses: connections and warnings are few, and each error has the reason.
#[cfg(feature = "http")]
#[tokio::test]
async fn failing_store_costs_little() {
    use tower_redlock::once::{RedisStore, ResponseStore};

    // One in each 100 ms, and the first.
    const MAX_CONNECTIONS: usize = 21;
    let cases = [
        (Reaction::Close, "not connected"),
        (Reaction::Truncated(b"$-1\r\n".into()), ""),
        (Reaction::Reply(b"$-1\r\n$-1\r\n".into()), "an unsolicited reply"),
        (Reaction::int(1), "something else"),
        (Reaction::error("READONLY no"), "read-only"),
    ];
    let checks = cases.map(|(answer, reason)| async move {
        let what = format!("{answer:?}");
        let server = FakeServer::start(move |_| answer.clone());
        let log = Log::new();
        let builder = RedisStore::builder(server.url()).spawner(LoggedSpawner::start(&log));
        let store = builder.build().unwrap();
        let begun = Instant::now();
        while begun.elapsed() < SPAN {
            if let Err(error) = store.get("a").await {
                let text = crate::once::cause(&error);
                assert!(text.contains(reason), "{what}: {text}");
            }
            tokio::task::yield_now().await;
        }
        let (connections, lines) = (server.connections(), log.count("WARN"));
        assert!(connections <= MAX_CONNECTIONS, "{what}: {connections} connections");
        assert!(lines <= MAX_CONNECTIONS, "{what}: {lines} lines");
    });
    join_all(checks).await;
}

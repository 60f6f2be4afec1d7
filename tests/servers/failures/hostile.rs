//! Servers that try to exhaust, block or mislead their clients.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use tower_redlock::{
    Redlock, RedlockBuilder,
    error::Reason,
    lock::Released,
    node::redis::{Address, Connecting, Connector, SocketConnector},
};

use crate::fixture::{
    FakeServer, HANG_GUARD, Reaction, RedisServer, eventually_async, fake,
    faults::{down, patient, works},
    in_time,
    tap::tapped,
};

/// Maximum number of bytes that a connection reads of needless replies: the limit of one write's
/// replies, and the buffer.
const MAX_READ: usize = 8 * 1024 * 1024;

/// Replies that no server gives, each with its name.
fn attacks() -> Vec<(&'static str, Reaction)> {
    let repeated = |first: &[u8], again: &[u8]| Reaction::Repeated(first.into(), again.into());
    vec![
        ("noise", repeated(&noise(), &noise())),
        ("long list", repeated(b"*2147483647\r\n", b":1\r\n")),
        ("deep list", repeated(b"", b"*1\r\n")),
        ("wide and deep list", repeated(b"", b"*9\r\n")),
        ("long text", repeated(b"$536870912\r\n", b"x")),
        ("long error", repeated(b"-ERR ", b"a\n")),
        ("long number", repeated(b":", b"0")),
        ("answers to nothing", repeated(b"", b"$-1\r\n")),
        ("pushed messages", repeated(b"", b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n1\r\n")),
        ("push of RESP3", repeated(b"", b">3\r\n+message\r\n+a\r\n+1\r\n")),
        ("drip", Reaction::Drip(b"$1000000\r\n".into())),
        ("half and silence", Reaction::Reply(b"*3\r\n:1\r\n$100\r\nabc".into())),
        ("half and end", Reaction::Truncated(b"*3\r\n:1\r\n$100\r\nabc".into())),
    ]
}

/// The same bytes in each run.
fn noise() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut byte = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..4_096).map(|_| byte()).collect()
}

/// The bytes that were read from one server, on the connection that read most of them.
#[derive(Clone, Debug)]
struct Meter {
    address: String,
    most: Arc<AtomicUsize>,
}

impl Meter {
    fn of(server: &FakeServer) -> Self {
        Self { address: server.addr().to_string(), most: Arc::default() }
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

impl Connector for Meter {
    fn connect(&self, address: &Address) -> Connecting {
        if address.to_string() != self.address {
            return SocketConnector::new().connect(address);
        }
        let (most, mut read) = (Arc::clone(&self.most), 0);
        tapped(address, move |bytes| {
            read += bytes.len();
            most.fetch_max(read, Ordering::SeqCst);
        })
    }
}

/// Two good servers and a hostile one, for the named case.
fn over(good: &[RedisServer], hostile: &FakeServer, prefix: &str) -> RedlockBuilder {
    let urls = [good[0].url(), good[1].url(), hostile.url()];
    patient(urls).key_prefix(format!("redlock:{}", prefix.replace(' ', "-")))
}

/// Checks that locks are acquired in time and without waiting for the hostile server, that its
/// connections end, that the node's health has its name and a reason, and that few bytes of it are
/// read.
async fn withstands(good: &[RedisServer], case: &str, make: impl Fn() -> FakeServer) {
    let hostile = make();
    let meter = Meter::of(&hostile);
    let redlock = over(good, &hostile, case).connector(meter.clone()).build().unwrap();
    // Each of these waits would be six seconds.
    in_time(async {
        for _ in 0..3 {
            works(&redlock).await;
        }
    })
    .await;
    assert!(meter.most() <= MAX_READ, "{case}: {} bytes were read", meter.most());
    let hostile = make();
    let meter = Meter::of(&hostile);
    let watchful = over(good, &hostile, case).node_timeout(Duration::from_millis(200));
    let redlock = watchful.connector(meter.clone()).build().unwrap();
    works(&redlock).await;
    let reason = down(&redlock, 2).await;
    let shown = reason.to_string();
    assert!(!shown.contains("panicked") && !shown.contains(char::is_control), "{case}: {shown:?}");
    assert!(shown.len() < 2_000, "{case}: {} bytes of text", shown.len());
    works(&redlock).await;
    tokio::time::timeout(HANG_GUARD, redlock.shutdown()).await.expect("the shutdown ends");
    drop(redlock);
    eventually_async("all connections end", async || hostile.open_connections() == 0).await;
    assert!(meter.most() <= MAX_READ, "{case}: {} bytes were read", meter.most());
}

/// Makes a hostile server of each attack, and checks a few at a time.
async fn all_withstood(make: impl Fn(Reaction) -> FakeServer) {
    let good = RedisServer::start_n(2);
    for some in attacks().chunks(4) {
        let checks =
            some.iter().map(|(case, attack)| withstands(&good, case, || make(attack.clone())));
        join_all(checks).await;
    }
}

#[tokio::test]
async fn greeting_is_cut() {
    all_withstood(|attack| FakeServer::start(move |_| attack.clone())).await;
}

#[tokio::test]
async fn answers_end_connection() {
    all_withstood(|attack| fake::greeting(move |_| attack.clone())).await;
}

#[tokio::test]
async fn health_checks_end_connection() {
    all_withstood(|attack| {
        let (checks, greeter) = (AtomicUsize::new(0), fake::Greeter::new());
        FakeServer::start(move |command| {
            let is_check = command.first().is_some_and(|name| name == b"INFO");
            // Two of the probe, and four of each health check of the first greeting: before and after
            // the enrolment.
            if is_check && checks.fetch_add(1, Ordering::SeqCst) >= 10 {
                return attack.clone();
            }
            greeter.greet(command).unwrap_or_else(|| Reaction::error("ERR no"))
        })
    })
    .await;
}

/// A hostile server that answers subscriptions, and refuses votes.
fn pushing(attack: Reaction) -> FakeServer {
    fake::greeting(move |command| match &*command[0] {
        b"SUBSCRIBE" => attack.clone(),
        _ => Reaction::error("ERR no"),
    })
}

#[tokio::test]
async fn pushes_delay_no_waiter() {
    let good = RedisServer::start_n(2);
    for (case, attack) in attacks() {
        let hostile = pushing(attack);
        let meter = Meter::of(&hostile);
        let build = || over(&good, &hostile, case).connector(meter.clone()).build().unwrap();
        let (holder, waiter) = (build(), build());
        let lock = in_time(async { holder.lock("a").await }).await.unwrap();
        let waiting = tokio::spawn(waiter.lock("a").wait(HANG_GUARD).into_future());
        eventually_async("it subscribes", async || hostile.count("SUBSCRIBE") > 0).await;
        in_time(lock.release()).await.unwrap();
        let lock = in_time(waiting).await.unwrap().unwrap();
        assert!(matches!(in_time(lock.release()).await, Ok(Released::Released)), "{case}");
    }
}

/// Number of scripts that a server has run by their digests.
fn calls(server: &RedisServer) -> u64 {
    server.calls("evalsha")
}

#[tokio::test]
async fn false_releases_cause_few_tries() {
    const MESSAGES: usize = 100_000;
    let good = RedisServer::start_n(2);
    let message = "*3\r\n$7\r\nmessage\r\n$14\r\nredlock:free:a\r\n$1\r\n1\r\n";
    let subscribed = "*3\r\n$9\r\nsubscribe\r\n$14\r\nredlock:free:a\r\n:1\r\n";
    let hostile = pushing(Reaction::Repeated(subscribed.into(), message.into()));
    let meter = Meter::of(&hostile);
    let urls = || [good[0].url(), good[1].url(), hostile.url()];
    let build = || -> Redlock { patient(urls()).connector(meter.clone()).build().unwrap() };
    let (holder, waiter) = (build(), build());
    let lock = in_time(async { holder.lock("a").await }).await.unwrap();
    let waiting = tokio::spawn(waiter.lock("a").wait(HANG_GUARD).into_future());
    let before = calls(&good[0]);
    eventually_async("many messages were read", async || meter.most() > MESSAGES * message.len())
        .await;
    let tries = calls(&good[0]) - before;
    assert!(tries < MESSAGES as u64 / 100, "{tries} calls");
    in_time(lock.release()).await.unwrap();
    let lock = in_time(waiting).await.unwrap().unwrap();
    in_time(lock.release()).await.unwrap();
}

#[tokio::test]
async fn forged_lines_are_escaped() {
    let hostile =
        fake::greeting(|_| Reaction::Reply(b"-ERR no\n2026 WARN forged \x1b[2J\r\n".into()));
    let redlock = patient([hostile.url()]).build().unwrap();
    let error = in_time(async { redlock.lock("a").await }).await.unwrap_err();
    let shown = error.to_string();
    assert!(shown.contains("node-1: server error: ERR no\\n2026 WARN forged"), "{shown}");
    assert!(!shown.contains(char::is_control), "{shown:?}");
}

#[tokio::test]
async fn hostile_majority_is_named() {
    for (case, attack) in attacks() {
        let hostile = || {
            let attack = attack.clone();
            fake::greeting(move |_| attack.clone())
        };
        let (good, hostile) = (RedisServer::start(), [hostile(), hostile()]);
        let urls = [hostile[0].url(), good.url(), hostile[1].url()];
        let redlock = patient(urls).node_timeout(Duration::from_millis(200)).build().unwrap();
        let error = in_time(async { redlock.lock("a").await }).await.unwrap_err();
        let shown = error.to_string();
        assert!(shown.contains("node-1: ") && shown.contains("node-3: "), "{case}: {shown}");
        assert!(!matches!(down(&redlock, 0).await, Reason::Unknown), "{case}");
    }
}

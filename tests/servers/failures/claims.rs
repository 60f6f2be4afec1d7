//! Promises and claims on failing servers.

use std::{sync::Arc, time::Duration};

use tower_redlock::{
    Redlock,
    error::Reason,
    node::{Answer, ClaimOp, Node, Op, PrepareOp},
};

use crate::fixture::{
    Feature, Proxy, RedisServer, Resp, all_vote, eventually_async,
    faults::{manager, patient},
    has, in_time,
    jobs::{CLAIMED, Response, SUPERSEDED, ask, claim, claims, of_tick, prepare, promised, stored},
};

const MARKS: &str = "redlock:marks";

async fn send(node: &Arc<dyn Node>, op: Op) -> Response {
    in_time(ask(node, op)).await
}

/// Sends an operation again and again, until the connection knows the digest of its script.
async fn until_loaded(server: &RedisServer, node: &Arc<dyn Node>, op: &Op) {
    let before = server.calls("evalsha");
    eventually_async("the script is called by its digest", async || {
        let _ = send(node, op.clone()).await;
        server.calls("evalsha") > before
    })
    .await;
}

#[tokio::test]
async fn forgotten_scripts_are_sent_as_text() {
    let server = RedisServer::start();
    let redlock = manager([server.url()]);
    all_vote(&redlock).await;
    let (node, kept, next) = (&redlock.nodes()[0], of_tick(5, 100), of_tick(7, 200));
    assert_eq!(send(node, claim("a", &kept)).await, CLAIMED);
    let cases = [
        (prepare("a", 6), promised(Some(&kept))),
        (claim("a", &next), CLAIMED),
        (claims(["a"]), stored([Some(&next)])),
    ];
    for (op, expected) in cases {
        until_loaded(&server, node, &op).await;
        server.cli(&["SCRIPT", "FLUSH"]);
        let texts = server.calls("eval");
        assert_eq!(send(node, op).await, expected);
        assert_eq!(server.calls("eval"), texts + 1, "the text is sent once: {expected:?}");
    }
}

/// Both are sent before the first one is answered.
#[tokio::test]
async fn operations_sent_again_keep_their_order() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let redlock = manager([proxy.url()]);
    all_vote(&redlock).await;
    let (node, job) = (&redlock.nodes()[0], "x".repeat(10_000));
    until_loaded(&server, node, &prepare(&job, 5)).await;
    server.cli(&["SCRIPT", "FLUSH"]);
    let (texts, before) = (server.calls("eval"), proxy.bytes_up());
    server.freeze();
    let (first, second) = (ask(node, prepare(&job, 9)), ask(node, claim(&job, &of_tick(8, 200))));
    eventually_async("both are sent", async || proxy.bytes_up() >= before + 20_000).await;
    server.thaw();
    assert_eq!(in_time(first).await, promised(None));
    assert_eq!(in_time(second).await, SUPERSEDED, "the promise came before it");
    assert_eq!(server.calls("eval"), texts + 2, "the server lacked the script for both");
}

#[tokio::test]
async fn denied_claims_key_affects_claims_only() {
    let server = RedisServer::start();
    let rules = ["~redlock:meta", "~redlock:fences*", "~redlock:lock:*", "+@all"];
    let user = ["ACL", "SETUSER", "app", "on", ">word"];
    let command: Vec<&str> = user.into_iter().chain(rules).collect();
    assert_eq!(server.cli(&command), Resp::Simple("OK".into()));
    let redlock = manager([server.plain_url().replace("redis://", "redis://app:word@")]);
    all_vote(&redlock).await;
    let node = &redlock.nodes()[0];
    for op in [prepare("a", 5), claim("a", &of_tick(5, 100)), claims(["a"])] {
        let response = send(node, op).await;
        assert!(matches!(response, Err(Reason::NoPermission(_))), "{response:?}");
    }
    crate::fixture::faults::works(&redlock).await;
    assert!(!server.exists(MARKS));
    server.cli(&["ACL", "SETUSER", "app", "~redlock:*"]);
    assert_eq!(send(node, prepare("a", 5)).await, promised(None));
}

#[tokio::test]
async fn foreign_claim_is_an_error() {
    let server = RedisServer::start();
    let redlock = manager([server.url()]);
    all_vote(&redlock).await;
    let node = &redlock.nodes()[0];
    let kept = of_tick(5, 100);
    assert_eq!(send(node, claim("b", &kept)).await, CLAIMED);
    server.cli(&["HSET", MARKS, "claim:a", "nonsense", "promise:a", "7"]);
    assert_eq!(send(node, claims(["b"])).await, stored([Some(&kept)]));
    for op in [claims(["b", "a"]), prepare("a", 7)] {
        let response = send(node, op).await;
        assert!(matches!(&response, Err(Reason::Protocol(_))), "{response:?}");
    }
    server.cli(&["DEL", MARKS]);
    server.set(MARKS, "a string");
    for op in [prepare("a", 9), claim("a", &kept), claims(["a"])] {
        let response = send(node, op).await;
        assert!(
            matches!(&response, Err(Reason::Server(text)) if text.contains("WRONGTYPE")),
            "{response:?}"
        );
    }
}

/// A full server stores no claim, and still returns stored ones.
#[tokio::test]
async fn a_full_server_keeps_no_claim() {
    let server = RedisServer::start();
    let redlock = manager([server.url()]);
    all_vote(&redlock).await;
    let (node, kept) = (&redlock.nodes()[0], of_tick(5, 100));
    assert_eq!(send(node, claim("a", &kept)).await, CLAIMED);
    server.set_config("maxmemory", "1");
    for op in [prepare("a", 9), claim("a", &of_tick(9, 200))] {
        assert_eq!(send(node, op).await, Err(Reason::OutOfMemory));
    }
    assert_eq!(send(node, claims(["a"])).await, stored([Some(&kept)]));
    server.set_config("maxmemory", "0");
    assert_eq!(send(node, prepare("a", 8)).await, promised(Some(&kept)), "9 was not promised");
}

/// A server whose clock passes the deadline of an operation before the operation arrives.
struct DelayedServer {
    server: RedisServer,
    proxy: Proxy,
    redlock: Redlock,
}

/// Recognized by its length among the other commands.
const LONG_NAME: usize = 50_000;

impl DelayedServer {
    async fn new() -> Self {
        let server = RedisServer::with_clock(&[]);
        let proxy = Proxy::start(server.addr());
        let redlock = patient([proxy.url()]).build().unwrap();
        all_vote(&redlock).await;
        Self { server, proxy, redlock }
    }

    /// Sends the operation, and delivers it after that many seconds.
    async fn ask_and_wait(&self, op: Op, seconds: f64) -> Response {
        self.server.freeze();
        let before = self.proxy.bytes_up();
        let response = ask(&self.redlock.nodes()[0], op);
        let sent = async || self.proxy.bytes_up() >= before + LONG_NAME as u64;
        eventually_async("the operation is sent", sent).await;
        self.server.set_clock_offset_unseen(seconds);
        self.server.thaw();
        in_time(response).await
    }
}

fn with_max_delay(op: Op, given: Duration) -> Op {
    match op {
        Op::Prepare(PrepareOp { job, token, .. }) => Op::Prepare(PrepareOp::new(job, token, given)),
        Op::Claim(ClaimOp { job, claim, .. }) => Op::Claim(ClaimOp::new(job, claim, given)),
        other => other,
    }
}

#[tokio::test]
async fn late_promises_and_claims_are_refused() {
    if !has(&[Feature::Clock]) {
        return;
    }
    let job = "x".repeat(LONG_NAME);
    let minute = Duration::from_secs(60);
    for op in [prepare(&job, 9), claim(&job, &of_tick(9, 100))] {
        let delayed = DelayedServer::new().await;
        let op = with_max_delay(op, minute);
        assert_eq!(delayed.ask_and_wait(op, 120.0).await, Err(Reason::Late));
        assert!(!delayed.server.exists(MARKS), "nothing is stored");
    }
    let in_time = DelayedServer::new().await;
    let op = with_max_delay(claim(&job, &of_tick(9, 100)), minute);
    assert_eq!(
        in_time.ask_and_wait(op, 30.0).await,
        Ok(Answer::Claimed),
        "it arrives within its deadline"
    );
}

//! Servers that can't vote: each causes one finding, with the reason and the advice.

use tower_redlock::{
    Redlock, RedlockBuilder,
    error::{Reason, UnfitServer},
    node::{NodeState, ServerKind, redis::RestartGuard},
};

use crate::fixture::{
    FakeServer, Feature, Reaction, RedisServer, Sentinel, all_vote, eventually_async, fake,
    guard::{guarded, quick},
    has, over, unused_port,
};

const REPLICATION: &str =
    "role:master\r\nmaster_replid:0123456789abcdef0123456789abcdef01234567\r\n";
const RUN: &str = "run_id:89abcdef0123456789abcdef0123456789abcdef\r\n";

/// A server with this answer to `INFO server`. `error`: its answer to commands for scripts.
fn server(info: &'static str, error: Option<&'static str>) -> FakeServer {
    let greeter = fake::Greeter::new();
    FakeServer::start(move |command| match (&*command[0], error) {
        (b"INFO", _) if command[1] == b"server" => Reaction::bulk(info),
        (b"INFO", _) if command[1] == b"replication" => Reaction::bulk(REPLICATION),
        (b"SCRIPT" | b"EVAL" | b"EVALSHA", Some(error)) => Reaction::error(error),
        _ => greeter.greet(command).unwrap_or_else(Reaction::ok),
    })
}

/// Waits until the first node is unfit, and returns why.
async fn unfit(redlock: &Redlock) -> UnfitServer {
    let mut found = None;
    eventually_async("the server is found unfit", async || {
        if let NodeState::Down { reason: Reason::Unfit(unfit), .. } = &redlock.health()[0].state {
            found = Some(unfit.clone());
        }
        found.is_some()
    })
    .await;
    found.expect("a reason")
}

/// Checks that a server causes this one finding, and gets no request for a vote.
async fn is_unfit(
    server: &FakeServer,
    builder: RedlockBuilder,
    expected: &UnfitServer,
    todo: &str,
) {
    let redlock = guarded(builder, [server.url()]).build().unwrap();
    assert_eq!(&unfit(&redlock).await, expected);
    let diagnosis = redlock.diagnosis().await;
    let advice: Vec<_> = diagnosis.advice.iter().filter(|one| one.node.is_some()).collect();
    let [advice] = advice[..] else { panic!("{advice:#?}") };
    assert_eq!(advice.code, "unfit-server");
    assert!(advice.todo.contains(todo), "{advice}");
    redlock.lock("x").await.unwrap_err();
    assert_eq!(server.count("EVALSHA"), 0);
}

#[tokio::test]
async fn dragonfly_needs_guard_off() {
    let server = server(
        "redis_version:7.4.0\r\ndragonfly_version:df-v1.27.1\r\nredis_mode:standalone",
        None,
    );
    let expected = UnfitServer::NoIdentity { missing: "run_id".into() };
    is_unfit(&server, quick(), &expected, "restart_guard = \"off\"").await;
    let redlock = over(quick(), [server.url()]).restart_guard(RestartGuard::Off).build().unwrap();
    all_vote(&redlock).await;
    let health = &redlock.health()[0];
    assert_eq!(
        (health.kind, health.version.as_deref()),
        (Some(ServerKind::Dragonfly), Some("df-v1.27.1"))
    );
    let advice = redlock.diagnosis().await.advice;
    assert!(advice.iter().any(|advice| advice.code == "server-limits"), "{advice:#?}");
}

#[tokio::test]
async fn garnet_needs_scripts() {
    let info = "redis_version:7.4.3\r\ngarnet_version:1.0.48\r\nredis_mode:standalone\r\n";
    let error = "ERR This instance has Lua scripting support disabled";
    let expected = UnfitServer::NoScripts { error: error.into() };
    is_unfit(&server(info, Some(error)), quick(), &expected, "--lua").await;
}

#[tokio::test]
async fn unknown_script_command_is_named() {
    let error = "ERR unknown command 'SCRIPT'";
    let expected = UnfitServer::NoScripts { error: error.into() };
    is_unfit(&server("redis_version:7.0.0", Some(error)), quick(), &expected, "Lua").await;
}

#[tokio::test]
async fn sentinel_is_not_a_node() {
    let info = "redis_version:7.2.4\r\nredis_mode:sentinel\r\n";
    let server = server(info, Some("ERR unknown command 'SCRIPT'"));
    is_unfit(&server, quick(), &UnfitServer::Sentinel, "redis+sentinel://").await;
}

#[tokio::test]
async fn cluster_needs_hash_tag() {
    let info: &'static str =
        Box::leak(format!("redis_version:7.2.4\r\nredis_mode:cluster\r\n{RUN}").into());
    let server = server(info, None);
    is_unfit(&server, quick(), &UnfitServer::Cluster, "redis+cluster://").await;
    let tagged = quick().key_prefix("{redlock}").restart_guard(RestartGuard::Off);
    let redlock = tagged.named_node("node-1", server.url()).build().unwrap();
    all_vote(&redlock).await;
}

/// Forks report the mode in other fields of INFO.
#[tokio::test]
async fn real_cluster_node_is_recognized() {
    if !has(&[Feature::ClusterPort]) {
        return;
    }
    let bus = unused_port();
    let bus_number = bus.number().to_string();
    let server = RedisServer::with(&["--cluster-enabled", "yes", "--cluster-port", &bus_number]);
    let redlock = guarded(quick(), [server.url()]).build().unwrap();
    assert_eq!(unfit(&redlock).await, UnfitServer::Cluster);
}

#[tokio::test]
async fn real_sentinel_is_recognized() {
    let master = RedisServer::start();
    let sentinel = Sentinel::start(master.addr(), None, "");
    let redlock = guarded(quick(), [format!("redis://{}", sentinel.addr())]).build().unwrap();
    assert_eq!(unfit(&redlock).await, UnfitServer::Sentinel);
}

//! The demo as its users run it: the program itself, over nodes inside its process and over servers.

mod service;
#[path = "../../../tests/support/mod.rs"]
mod support;

use std::{
    process::{Output, Stdio},
    time::{Duration, Instant},
};

use axum::{
    body::{Body, to_bytes},
    http::{Request, StatusCode, request},
};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

use crate::support::{RedisServer, eventually_async};

/// Timeout for the demo to end. Its check takes a few ticks of the report.
const END_TIMEOUT: Duration = Duration::from_secs(120);

/// Returns the command, over these servers, or over nodes inside its process if there are none.
fn demo(servers: &[RedisServer], args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_demo"));
    command.args(args).stdout(Stdio::piped()).kill_on_drop(true).env_remove("REDLOCK_NODES");
    if !servers.is_empty() {
        let urls: Vec<_> = servers.iter().map(RedisServer::url).collect();
        command.env("REDLOCK_NODES", urls.join(","));
    }
    command
}

fn interrupt(child: &Child) {
    let id = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
    kill_process(id.expect("the demo runs"), Signal::INT).unwrap();
}

async fn output(child: Child) -> Output {
    timeout(END_TIMEOUT, child.wait_with_output()).await.expect("the demo ends").unwrap()
}

fn locks(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().flat_map(|server| server.keys("*:lock:*")).collect()
}

async fn send(request: request::Builder) -> (StatusCode, Body) {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let (head, body) =
        client.request(request.body(Body::empty()).unwrap()).await.unwrap().into_parts();
    (head.status, Body::new(body))
}

#[tokio::test]
async fn its_checks_hold_and_no_key_is_left() {
    for servers in [vec![], RedisServer::start_n(3)] {
        let ended = output(demo(&servers, &["--check"]).spawn().unwrap()).await;

        assert!(ended.status.success(), "over {} servers: {ended:?}", servers.len());
        assert_eq!(locks(&servers), [""; 0], "{ended:?}");
    }
}

#[tokio::test]
async fn interrupted_drive_fails_and_leaves_no_key() {
    let servers = RedisServer::start_n(3);
    let child = demo(&servers, &["--port", "0", "--drive", "20000"]).spawn().unwrap();
    eventually_async("a lock is held", async || !locks(&servers).is_empty()).await;

    interrupt(&child);

    let ended = output(child).await;
    assert!(!ended.status.success(), "{ended:?}");
    assert_eq!(locks(&servers), [""; 0], "{ended:?}");
}

/// Without a user its state changes, and it serves the changes.
#[tokio::test]
async fn runs_by_itself_until_interrupted() {
    let mut child = demo(&[], &["--port", "0"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let first = lines.next_line().await.unwrap().expect("the demo prints its address");
    let pages = first.split_whitespace().next().filter(|url| url.ends_with("/locks/")).unwrap();
    let get = async |path: &str| send(Request::get(format!("{pages}{path}"))).await;
    let text = async |path: &str| {
        let body = to_bytes(get(path).await.1, 1 << 16).await.unwrap();
        String::from_utf8(body.into()).unwrap()
    };
    // The tokens of the locks that are held.
    let tokens = async || -> Vec<Value> {
        let snapshot: Value = serde_json::from_str(&text("api/locks").await).unwrap();
        let locks = snapshot["fleet"]["locks"].as_array().unwrap();
        let is_account = |lock: &&Value| lock["name"].as_str().unwrap().starts_with("account:");
        locks.iter().filter(is_account).map(|lock| lock["token"].clone()).collect()
    };
    let mut first = Vec::new();
    eventually_async("a withdrawal", async || {
        first = tokens().await;
        !first.is_empty()
    })
    .await;
    let is_later = |token: &Value| !first.contains(token);
    eventually_async("a later one", async || tokens().await.iter().any(is_later)).await;
    eventually_async("a report", async || text("api/jobs").await.contains("nightly-report")).await;
    assert_eq!(get("locks").await.0, StatusCode::OK);
    let rebound = Request::get(pages).header("host", "evil.example");
    assert_eq!(send(rebound).await.0, StatusCode::FORBIDDEN);
    let (status, events) = get("api/events/stream").await;
    assert_eq!(status, StatusCode::OK);

    let begun = Instant::now();
    interrupt(&child);

    assert!(output(child).await.status.success());
    // A stream takes 20 s by itself.
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    drop(events);
}

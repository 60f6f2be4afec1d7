//! The examples, as their users run them: the programs themselves, over nodes of their own, or over
//! servers with `REDLOCK_TEST_EXAMPLES=servers`.
//!
//! The example `testing` consists of tests, which `cargo test` runs.

use std::{
    env,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use axum::{
    body::{Body, to_bytes},
    http::{Request, StatusCode, request},
};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

use self::generated::{PlaceRequest, TrackRequest, orders_client::OrdersClient};
use crate::support::{RedisServer, eventually_async};

mod generated {
    #![allow(clippy::all, clippy::pedantic, missing_docs, unreachable_pub, reason = "generated")]
    include!("../../../examples/proto/orders.v1.rs");
}

const HANG_GUARD: Duration = Duration::from_secs(60);

/// Where the examples take their locks: `servers`, or nodes inside their process.
const VARIABLE: &str = "REDLOCK_TEST_EXAMPLES";

/// A running example. Dropping it kills it.
struct Example {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// Each example has its own: their settings differ.
    _servers: Vec<RedisServer>,
}

impl Example {
    /// Starts the program that cargo has built beside this test.
    fn start(name: &str) -> Self {
        Self::start_with(name, &[])
    }

    fn start_with(name: &str, args: &[&str]) -> Self {
        let test = env::current_exe().expect("the binary knows its path");
        let target = test.parent().and_then(|deps| deps.parent()).expect("target/PROFILE/deps");
        let program: PathBuf =
            target.join("examples").join(format!("{name}{}", env::consts::EXE_SUFFIX));
        let servers = match env::var(VARIABLE).as_deref() {
            Ok("servers") => RedisServer::start_n(3),
            Ok(other) => panic!("{VARIABLE} is {other:?}, not \"servers\""),
            Err(_) => Vec::new(),
        };
        let urls: Vec<_> = servers.iter().map(RedisServer::url).collect();
        let mut command = Command::new(&program);
        if urls.is_empty() {
            command.env_remove("REDLOCK_NODES");
        } else {
            command.env("REDLOCK_NODES", urls.join(","));
        }
        let mut child = command
            .args(args)
            .env("LISTEN", "127.0.0.1:0")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| {
                panic!(
                    "{}: {error}; cargo build --all-features --example {name}",
                    program.display()
                )
            });
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        Self { child, lines, _servers: servers }
    }

    async fn next_line(&mut self) -> Option<String> {
        timeout(HANG_GUARD, self.lines.next_line()).await.expect("it says more").unwrap()
    }

    /// Waits for a line with this text, and returns the line.
    async fn line_with(&mut self, text: &str) -> String {
        let mut seen = Vec::new();
        while let Some(line) = self.next_line().await {
            if line.contains(text) {
                return line;
            }
            seen.push(line);
        }
        panic!("{text:?} is missing: {seen:#?}");
    }

    /// The URL that a server prints.
    async fn url(&mut self) -> String {
        let line = self.line_with("listening on http://").await;
        let url = line.split_once("listening on ").expect("it was found").1;
        url.split(';').next().expect("the first part").to_owned()
    }

    /// Sends Ctrl-C, and expects a successful exit.
    async fn interrupt(mut self) {
        let id = self.child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        kill_process(id.expect("it runs"), Signal::INT).unwrap();
        assert!(self.status().await.success());
    }

    async fn status(&mut self) -> ExitStatus {
        timeout(HANG_GUARD, self.child.wait()).await.expect("it ends").unwrap()
    }

    /// Waits for a successful exit, and returns the output.
    async fn output(mut self) -> String {
        let mut output = String::new();
        while let Some(line) = self.next_line().await {
            output += &line;
            output.push('\n');
        }
        assert!(self.status().await.success(), "{output}");
        output
    }
}

async fn send(request: request::Builder, body: &str) -> (StatusCode, bool, String) {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let request = request.body(Body::from(body.to_owned())).unwrap();
    let (head, body) = client.request(request).await.unwrap().into_parts();
    let text = to_bytes(Body::new(body), 1 << 16).await.unwrap();
    let is_repeat = ["once", "idempotency-replayed"].iter().any(|h| head.headers.contains_key(*h));
    (head.status, is_repeat, String::from_utf8(text.into()).unwrap())
}

#[tokio::test]
async fn axum() {
    let mut example = Example::start("axum");
    let url = example.url().await;

    let post = async |path: &str| send(Request::post(format!("{url}{path}")), "").await.0;

    assert_eq!(post("/accounts/1/deposit/100").await, StatusCode::OK);
    assert_eq!(post("/accounts/1/withdraw/101").await, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(post("/transfers/1/2/30").await, StatusCode::OK);
    assert_eq!(post("/accounts/x/deposit/1").await, StatusCode::BAD_REQUEST);

    let balance = send(Request::get(format!("{url}/accounts/1")), "").await;
    assert_eq!((balance.0, &*balance.2), (StatusCode::OK, "70\n"));

    example.interrupt().await;
}

#[tokio::test]
async fn limits() {
    let mut example = Example::start("limits");
    let url = example.url().await;
    let export = async |tenant: &str| {
        let (status, _, text) = send(Request::post(format!("{url}/exports/{tenant}")), "").await;
        (status, text)
    };

    let (first, second, third, other) =
        tokio::join!(export("acme"), export("acme"), export("acme"), export("other"));
    let mut acme = [first.0, second.0, third.0];
    acme.sort_unstable();

    assert_eq!(acme, [StatusCode::OK, StatusCode::OK, StatusCode::TOO_MANY_REQUESTS]);
    assert_eq!(other.0, StatusCode::OK);
    assert!(other.1.starts_with("exported other in slot "), "{}", other.1);
    let is_free = async || export("acme").await.0 == StatusCode::OK;
    eventually_async("a slot is free", is_free).await;

    example.interrupt().await;
}

#[tokio::test]
async fn readers() {
    let mut example = Example::start("readers");
    let url = example.url().await;
    let page = format!("{url}/pages/tea");
    let put = async |text: &str| send(Request::put(&page), text).await;
    let get = async || send(Request::get(&page), "").await;
    assert!(put("green").await.2.starts_with("written under token "));
    for step in ["writing tea", "wrote tea"] {
        assert_eq!(example.next_line().await.unwrap(), step);
    }

    let (one, two) = tokio::join!(get(), get());
    for step in ["reading tea", "reading tea", "read tea", "read tea"] {
        assert_eq!(example.next_line().await.unwrap(), step);
    }
    assert_eq!((one.0, &*one.2), (StatusCode::OK, "GREEN: green\n"));
    assert_eq!((one.0, one.2), (two.0, two.2));

    let (one, written, two) = tokio::join!(get(), put("black"), get());
    assert_eq!(written.0, StatusCode::OK);
    for read in [one, two] {
        assert!(["GREEN: green\n", "BLACK: black\n"].contains(&&*read.2), "{}", read.2);
    }

    example.interrupt().await;
}

#[tokio::test]
async fn tonic() {
    let mut example = Example::start("tonic");
    let mut client = OrdersClient::connect(example.url().await).await.unwrap();
    for lines in 1..=2 {
        let mut place = tonic::Request::new(PlaceRequest { item: "tea".into(), quantity: 2 });
        place.metadata_mut().insert("order-id", 7.into());
        assert_eq!(client.place(place).await.unwrap().into_inner().lines, lines);
    }
    let mut track = tonic::Request::new(TrackRequest {});
    track.metadata_mut().insert("order-id", 7.into());
    let mut events = client.track(track).await.unwrap().into_inner();
    let mut count = 0;

    while let Some(event) = events.message().await.unwrap() {
        count += 1;
        assert_eq!((event.line, event.lines, &*event.item), (count, 2, "tea"));
    }

    assert_eq!(count, 2);

    let nameless = client.track(TrackRequest {}).await.unwrap_err();
    assert_eq!(nameless.code(), tonic::Code::InvalidArgument);

    drop(client);
    example.interrupt().await;
}

/// Sends the request of the curl command that the example prints.
#[tokio::test]
async fn webhooks() {
    let mut example = Example::start("webhooks");
    let url = example.url().await;
    let command = [example.line_with("curl").await, example.line_with("webhook-id").await];
    let command = command.join(" ") + &example.line_with("webhook-signature").await;
    let quoted: Vec<&str> = command.split('\'').skip(1).step_by(2).collect();
    let body = quoted.iter().find(|text| text.starts_with('{')).unwrap();
    let headers: Vec<_> = quoted.iter().filter_map(|text| text.split_once(": ")).collect();
    let request = || {
        let request = Request::post(&url);
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
    };

    let first = send(request(), body).await;

    assert_eq!((first.0, first.1), (StatusCode::NO_CONTENT, false));

    let second = send(request(), body).await;
    assert_eq!((second.0, second.1), (StatusCode::OK, true));
    assert_eq!(send(request(), "{}").await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(send(Request::post(&url), body).await.0, StatusCode::BAD_REQUEST);

    example.interrupt().await;
}

#[tokio::test]
async fn idempotency() {
    let mut example = Example::start("idempotency");
    let url = example.url().await + "/payments";
    let request = |user: &str| {
        let request = Request::post(&url).header("idempotency-key", "\"8e03978e\"");
        request.header("authorization", format!("Bearer {user}"))
    };

    let first = send(request("alice"), "amount=7").await;

    assert_eq!((first.0, first.1), (StatusCode::CREATED, false));

    let again = send(request("alice"), "amount=7").await;
    assert_eq!((again.0, again.1, again.2), (StatusCode::CREATED, true, first.2.clone()));
    assert_eq!(send(request("alice"), "amount=8").await.0, StatusCode::UNPROCESSABLE_ENTITY);
    assert_ne!(send(request("bob"), "amount=7").await.2, first.2);

    example.interrupt().await;
}

#[tokio::test]
async fn scheduler() {
    let mut example = Example::start("scheduler");
    example.line_with("tick ").await;
    example.line_with("page 3").await;
    example.interrupt().await;
}

#[tokio::test]
async fn leader() {
    let mut example = Example::start("leader");
    example.line_with("leading; token ").await;
    example.line_with("billing under token ").await;
    example.interrupt().await;
}

#[tokio::test]
async fn fencing() {
    let output = Example::start("fencing").output().await;
    assert!(output.contains("bob writes his report: 200 OK"), "{output}");
    assert!(output.contains("too late: 412 Precondition Failed"), "{output}");
    assert!(output.ends_with("the storage has: bob's report\n"), "{output}");
}

#[tokio::test]
async fn tower() {
    let output = Example::start("tower").output().await;
    let under = |text: &str| {
        let (_, token) = output.split_once(text).unwrap_or_else(|| panic!("{text:?}: {output}"));
        token.lines().next().map(str::to_owned)
    };
    let failed = under("account 7: failed under token ");
    assert_eq!(
        failed,
        under("account 7: charged 250 cents under token "),
        "one lock, two attempts"
    );
    assert_ne!(failed, under("account 7: charged 100 cents under token "));
    assert!(output.ends_with("account 8: 900 cents\n"), "{output}");
}

#[tokio::test]
async fn by_hand() {
    let output = Example::start("by_hand").output().await;
    for text in ["billed 7", "held; try again in", "still valid: true", "Released", "lost: "] {
        assert!(output.contains(text), "{text:?} is missing: {output}");
    }
}

#[tokio::test]
async fn blocking() {
    let output = Example::start("blocking").output().await;
    for text in ["blue: page 3", "green: page 3", "held; try again in", "reported", "Released"] {
        assert!(output.contains(text), "{text:?} is missing: {output}");
    }
}

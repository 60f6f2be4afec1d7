//! A process that is stopped for longer than the validity of its lock, and resumed.

use std::{
    env, fs,
    future::poll_fn,
    net::SocketAddr,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    task::Poll,
    time::Duration,
};

use axum::{Router, body::Body, extract::Request};
use bytes::Bytes;
use http_body_util::{BodyExt, channel::Channel};
use hyper_util::{client::legacy, rt::TokioExecutor};
use rustix::process::Signal;
use tower_redlock::{LockContext, Redlock, RedlockBuilder, RedlockLayer};

use super::{
    client::Answer,
    site::{serve, soon},
};
use crate::support::{
    self, HANG_GUARD, Process, RedisServer, TempDir, eventually_async, over, urls,
};

const ORDERS: &str = "TOWER_REDLOCK_FROZEN";
const TTL: Duration = Duration::from_secs(2);

fn short() -> RedlockBuilder {
    Redlock::builder().ttl(TTL).node_timeout(TTL / 10)
}

/// Serves until it is killed; does nothing in an ordinary run of all tests. Prints its address, and
/// a line with the number of the poll for each poll of the guarded work.
#[tokio::test]
async fn serves_and_reports_each_poll() {
    let Ok(urls) = env::var(ORDERS) else { return };
    let redlock = over(short(), urls.split(' ')).build().unwrap();
    redlock.ready().await.unwrap();
    let app =
        Router::new().fallback(work).layer(RedlockLayer::new(redlock, |_: &Request| "a").http());
    println!("listens {}", serve(app).await);
    std::future::pending::<()>().await;
}

/// Reads the request's body, which the other end sends: a poll for each chunk.
async fn work(lock: LockContext, request: Request) -> &'static str {
    static POLLS: AtomicUsize = AtomicUsize::new(0);
    println!("token {}", lock.fencing_token());
    let mut body = request.into_body();
    poll_fn(|cx| {
        println!("poll {}", POLLS.fetch_add(1, Ordering::SeqCst));
        while let Poll::Ready(frame) =
            http_body::Body::poll_frame(std::pin::Pin::new(&mut body), cx)
        {
            match frame {
                Some(Ok(frame)) => println!("read {:?}", frame.into_data()),
                _ => return Poll::Ready("done"),
            }
        }
        Poll::Pending
    })
    .await
}

struct Child {
    process: Process,
    log: PathBuf,
    _dir: TempDir,
}

impl Child {
    fn start(servers: &[RedisServer]) -> Self {
        let (_, module) = module_path!().split_once("::").expect("a path below the root");
        let test = format!("{module}::serves_and_reports_each_poll");
        let urls = servers.iter().map(RedisServer::url).collect::<Vec<_>>().join(" ");
        let program = env::current_exe().unwrap().to_str().expect("a UTF-8 path").to_owned();
        let order = format!("{ORDERS}={urls}");
        let command = ["env", &order, &program, &test, "--exact", "--nocapture"];
        let dir = TempDir::new();
        let log = dir.path().join("log");
        let process = Process::spawn(&command.map(ToOwned::to_owned), &log);
        Self { process, log, _dir: dir }
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    async fn says(&self, what: &str) {
        eventually_async(what, async || self.said().contains(what)).await;
    }

    fn value(&self, name: &str) -> Option<String> {
        // Only a complete line counts.
        let said = self.said();
        let (lines, _) = said.rsplit_once('\n')?;
        let prefix = format!("{name} ");
        lines.lines().find_map(|line| line.strip_prefix(&prefix).map(ToOwned::to_owned))
    }

    fn polls(&self) -> usize {
        self.said().matches("poll ").count()
    }

    async fn listens(&self) -> SocketAddr {
        eventually_async("the child listens", async || self.value("listens").is_some()).await;
        self.value("listens").unwrap().parse().unwrap()
    }
}

async fn connected(servers: &[RedisServer]) -> Redlock {
    support::connected(over(short(), urls(servers))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen_process_answers_outcome_unknown() {
    let servers = RedisServer::start_n(3);
    let rival = connected(&servers).await;
    let child = Child::start(&servers);
    let addr = child.listens().await;

    let (mut chunks, body) = Channel::<Bytes, std::io::Error>::new(4);
    let client = legacy::Client::builder(TokioExecutor::new()).build_http::<Body>();
    let uri = format!("http://{addr}/");
    let request = http::Request::post(uri).body(Body::new(body)).unwrap();
    let answer = tokio::spawn(async move {
        let (head, body) = client.request(request).await.unwrap().into_parts();
        let text = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(text.into()).unwrap();
        Answer { status: head.status, headers: head.headers, text }
    });
    // The work is running, and each chunk causes a poll.
    chunks.send_data("one".into()).await.unwrap();
    child.says("read Ok(b\"one\")").await;
    let before = child.polls();
    chunks.send_data("two".into()).await.unwrap();
    child.says("read Ok(b\"two\")").await;
    assert!(child.polls() > before);

    child.process.signal(Signal::STOP);
    let lock = rival.lock("a").wait(HANG_GUARD * 3).await.expect("free after the TTL");
    let frozen = child.said();
    // This chunk would cause another poll; it is delivered when the process resumes.
    chunks.send_data("three".into()).await.unwrap();
    assert!(!answer.is_finished());
    child.process.signal(Signal::CONT);

    let answer = soon("the answer", answer).await.unwrap();
    assert_eq!(answer.problem(), (500, "lost".into(), "unknown".into()));
    assert!(!answer.headers.contains_key(http::header::RETRY_AFTER));
    let polls = |said: &str| said.matches("poll ").count();
    assert_eq!(polls(&child.said()), polls(&frozen), "{}", child.said());
    assert!(!child.said().contains("three"), "{}", child.said());
    let token: u64 = child.value("token").unwrap().parse().unwrap();
    assert!(lock.is_valid(), "the other's lock is not hurt");
    assert!(lock.fencing_token().get() > token);
    lock.release().await.unwrap();
}

//! Drives the demo: many requests at once over real connections, and a tally of the answers.

use std::{
    error::Error,
    fmt::Write,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use axum::{
    body::{Body, to_bytes},
    http::{Request, Response},
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::{Demo, board::Counts, ledger::ACCOUNTS};

/// Connections that are open at once: below what systems allow a process.
const AT_ONCE: usize = 400;

pub(crate) struct Progress {
    pub(crate) total: usize,
    done: AtomicUsize,
}

impl Progress {
    pub(crate) fn new(total: usize) -> Self {
        Self { total, done: AtomicUsize::new(0) }
    }

    pub(crate) fn done(&self) -> usize {
        self.done.load(Relaxed)
    }
}

/// What the client saw.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) counts: Counts,
    /// For each account, how many withdrawals succeeded, and how many may have.
    pub(crate) withdrawn: [(i64, i64); ACCOUNTS],
    pub(crate) unanswered: u64,
    pub(crate) error: Option<String>,
    pub(crate) took: Duration,
}

pub(crate) async fn drive(demo: &Demo) -> Tally {
    let started = Instant::now();
    let client = Client::builder(TokioExecutor::new()).build_http();
    let gate = Arc::new(Semaphore::new(AT_ONCE));
    let mut requests = JoinSet::new();
    for i in 0..demo.progress.total {
        let account = i % ACCOUNTS + 1;
        let url = format!("{}/accounts/{account}/withdraw", demo.url);
        let (client, gate) = (client.clone(), Arc::clone(&gate));
        requests.spawn(async move {
            let _permit = gate.acquire().await;
            (account, send(&client, &url).await)
        });
    }
    let mut tally = Tally::default();
    while let Some(answer) = requests.join_next().await {
        let (account, answer) = answer.expect("a request does not panic");
        tally.add(account, answer);
        demo.progress.done.fetch_add(1, Relaxed);
    }
    tally.took = started.elapsed();
    tally
}

type HttpClient = Client<HttpConnector, Body>;
type Answer = Result<Response<()>, Box<dyn Error + Send + Sync>>;

async fn send(client: &HttpClient, url: &str) -> Answer {
    let response = client.request(Request::post(url).body(Body::empty())?).await?;
    let (parts, body) = response.into_parts();
    // Read to its end, so that the connection can serve another request.
    to_bytes(Body::new(body), 64 * 1024).await?;
    Ok(Response::from_parts(parts, ()))
}

impl Tally {
    fn add(&mut self, account: usize, answer: Answer) {
        let (withdrawn, perhaps) = &mut self.withdrawn[account - 1];
        match answer {
            Ok(response) => {
                self.counts.add(&response);
                *withdrawn += i64::from(response.status().is_success());
                *perhaps += i64::from(response.status() == 500);
            }
            Err(error) => {
                *perhaps += 1;
                self.unanswered += 1;
                self.error.get_or_insert_with(|| with_causes(&*error));
            }
        }
    }
}

fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

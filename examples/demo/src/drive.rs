//! Drives the demo: sends many concurrent requests over real connections, and checks the outcome.

use std::{
    error::Error,
    fmt::Write,
    process::ExitCode,
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

use crate::{
    Demo,
    board::Counts,
    job,
    ledger::{ACCOUNTS, OPENING_BALANCE},
};

/// Maximum number of open connections: below the usual limit of a process.
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

/// The responses that the clients received.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) counts: Counts,
    /// For each account, the withdrawals that succeeded, and those that may have.
    pub(crate) withdrawn: [(i64, i64); ACCOUNTS],
    pub(crate) unanswered: u64,
    pub(crate) error: Option<String>,
    pub(crate) took: Duration,
}

pub(crate) async fn drive(demo: &Demo) -> Tally {
    let started = Instant::now();
    let client = client();
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

pub(crate) type HttpClient = Client<HttpConnector, Body>;
pub(crate) type Answer = Result<Response<()>, Box<dyn Error + Send + Sync>>;

pub(crate) fn client() -> HttpClient {
    Client::builder(TokioExecutor::new()).build_http()
}

pub(crate) async fn send(client: &HttpClient, url: &str) -> Answer {
    let response = client.request(Request::post(url).body(Body::empty())?).await?;
    let (parts, body) = response.into_parts();
    // Reads the body to its end, so that the connection can be reused.
    to_bytes(Body::new(body), 64 * 1024).await?;
    Ok(Response::from_parts(parts, ()))
}

impl Tally {
    fn add(&mut self, account: usize, answer: Answer) {
        let (withdrawn, possible) = &mut self.withdrawn[account - 1];
        match answer {
            Ok(response) => {
                self.counts.add(&response);
                *withdrawn += i64::from(response.status().is_success());
                *possible += i64::from(response.status() == 500);
            }
            Err(error) => {
                *possible += 1;
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

/// Prints the counts and the checks. The exit code says whether all checks hold.
pub(crate) fn verdict(demo: &Demo, tally: &Tally, check: bool) -> ExitCode {
    let counts = tally.counts;
    let history = demo.report.history();
    println!();
    println!("{} requests over {ACCOUNTS} accounts in {:.2?}", demo.progress.total, tally.took);
    println!("  {:>6} ran (200)", counts.ran);
    println!("  {:>6} of them waited for a turn, at most {:?}", counts.waited, counts.longest_wait);
    println!("  {:>6} rejected: held by another (409)", counts.held);
    println!("  {:>6} rejected: no quorum, or too slow (503)", counts.unavailable);
    println!("  {:>6} outcome unknown: lock lost (500)", counts.unknown);
    println!("  {:>6} other answers", counts.other);
    println!("  {:>6} not answered", tally.unanswered);
    if let Some(error) = &tally.error {
        println!("         the first: {error}");
    }
    println!(
        "report: {} ticks ran, {} missed, {} failed",
        history.ran, history.missed, history.failed
    );

    let overlaps = demo.ledger.overlaps() + demo.report.overlaps();
    let wrong = (1..=ACCOUNTS).filter(|id| !is_right(demo, tally, *id)).count();
    let stale = demo.ledger.stale_writes();
    let total = counts.total();
    let pending = demo.cluster.pending_releases();
    let mut checks = vec![
        (total == demo.progress.total as u64, format!("requests answered: {total}")),
        (counts.ran > 0, format!("withdrawals that ran: {}", counts.ran)),
        (overlaps == 0, format!("withdrawals or reports that overlap: {overlaps}")),
        (wrong == 0, format!("wrong balances: {wrong}")),
        (stale == 0, format!("writes with a stale token: {stale}")),
        (history.repeated == 0, format!("ticks that ran twice: {}", history.repeated)),
        (pending == 0, format!("releases pending: {pending}")),
    ];
    if check {
        let ran = history.ran;
        checks.push((ran >= job::TICKS_TO_CHECK, format!("reports made: {ran}")));
    }
    if let Some(left) = demo.cluster.keys_left() {
        checks.push((left == 0, format!("keys left on the nodes: {left}")));
    }
    for (holds, check) in &checks {
        println!("{} {check}", if *holds { "ok    " } else { "FAILED" });
    }
    if checks.iter().all(|(holds, _)| *holds) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns whether each success took 1 from the account, and an unknown outcome at most 1.
fn is_right(demo: &Demo, tally: &Tally, id: usize) -> bool {
    let (withdrawn, possible) = tally.withdrawn[id - 1];
    let Ok(balance) = demo.ledger.balance(id) else { return false };
    (withdrawn..=withdrawn + possible).contains(&(OPENING_BALANCE - balance))
}

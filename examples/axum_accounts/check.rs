//! Drives two replicas with real requests, counts the answers, and says which promises held.

use std::{collections::BTreeMap, error::Error, net::SocketAddr, process::ExitCode, time::Instant};

use axum::{
    body::{Body, to_bytes},
    http::{Method, Request, StatusCode, header::RETRY_AFTER},
};
use futures_util::{StreamExt, stream};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::net::TcpListener;
use tower_redlock::{Redlock, node::NodeHealth};

use crate::{
    bank::{ACCOUNTS, Bank, OPENING_BALANCE},
    manager, nodes, router,
};

const REQUESTS: usize = 600;
const AT_ONCE: usize = 150;

type HttpClient = Client<HttpConnector, Body>;
type Failure = Box<dyn Error + Send + Sync>;

struct Answer {
    status: StatusCode,
    retry_after: Option<u64>,
    text: String,
}

/// What is asked for, and by how much it changes all money together.
#[derive(Clone)]
struct Order {
    path: String,
    change: i64,
}

#[derive(Default)]
struct Tally {
    statuses: BTreeMap<StatusCode, usize>,
    unanswered: usize,
    /// What the answers say has come in, and what may have.
    change: i64,
    perhaps: (i64, i64),
    without_retry_after: usize,
    statements: usize,
    wrong_statements: usize,
}

pub(crate) async fn run() -> Result<ExitCode, Box<dyn Error>> {
    let nodes = nodes();
    println!("waiting for a quorum of nodes");
    let replicas = [manager(&nodes).await?, manager(&nodes).await?];
    let bank = Bank::default();
    let mut addrs = Vec::new();
    for redlock in &replicas {
        addrs.push(listen(redlock.clone(), bank.clone()).await?);
    }
    let client = Client::builder(TokioExecutor::new()).build_http();

    let started = Instant::now();
    let orders = (0..REQUESTS).map(|i| (order(i), addrs[i % addrs.len()]));
    let mut answers = stream::iter(orders)
        .map(async |(order, addr)| {
            let answer = send(&client, addr, Method::POST, &order.path).await;
            (order, answer)
        })
        .buffer_unordered(AT_ONCE);
    let mut tally = Tally::default();
    let mut done = 0;
    while let Some((order, answer)) = answers.next().await {
        tally.add(&order, answer);
        done += 1;
        if done % 100 == 0 {
            println!("{:5.1} s  {done}/{REQUESTS} answered", started.elapsed().as_secs_f64());
        }
    }
    let turned_away = turned_away(&client, addrs[0], &replicas[1]).await?;
    for redlock in &replicas {
        redlock.shutdown().await;
    }
    Ok(judge(&tally, &bank, &replicas, turned_away))
}

async fn listen(redlock: Redlock, bank: Bank) -> Result<SocketAddr, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    let server = axum::serve(listener, router(redlock, bank));
    tokio::spawn(async move { server.await.expect("axum's server does not end") });
    Ok(addr)
}

/// All kinds in turn, over all accounts.
fn order(i: usize) -> Order {
    let id = i % ACCOUNTS + 1;
    let other = (id + i / ACCOUNTS % (ACCOUNTS - 1)) % ACCOUNTS + 1;
    let (path, change) = match i / ACCOUNTS % 4 {
        0 => (format!("/accounts/{id}/deposit/7"), 7),
        1 => (format!("/accounts/{id}/withdraw/5"), -5),
        2 => (format!("/transfers/{id}/{other}/3"), 0),
        _ => (format!("/accounts/{id}/statement"), 0),
    };
    Order { path, change }
}

async fn send(
    client: &HttpClient,
    addr: SocketAddr,
    method: Method,
    path: &str,
) -> Result<Answer, Failure> {
    let request = Request::builder().method(method).uri(format!("http://{addr}{path}"));
    let (head, body) = client.request(request.body(Body::empty())?).await?.into_parts();
    let retry_after =
        head.headers.get(RETRY_AFTER).and_then(|after| after.to_str().ok()?.parse().ok());
    let text = String::from_utf8(to_bytes(Body::new(body), 1 << 20).await?.into())?;
    Ok(Answer { status: head.status, retry_after, text })
}

/// While an account is locked by hand: a change is turned away, a read is not, and a path without
/// an account is a bad request. How many of the three were answered so.
async fn turned_away(
    client: &HttpClient,
    addr: SocketAddr,
    redlock: &Redlock,
) -> Result<usize, Box<dyn Error>> {
    let lock = redlock.lock("account:1").wait(std::time::Duration::from_secs(10)).await?;
    let ask = async |method, path| {
        send(client, addr, method, path).await.map_err(|e| e as Box<dyn Error>)
    };
    let change = ask(Method::POST, "/accounts/1/deposit/1").await?;
    let read = ask(Method::GET, "/accounts/1").await?;
    let nothing = ask(Method::POST, "/accounts/nobody/deposit/1").await?;
    lock.release().await?;
    let as_promised = [
        change.status == StatusCode::CONFLICT && change.retry_after.is_some_and(|after| after > 0),
        read.status == StatusCode::OK,
        nothing.status == StatusCode::BAD_REQUEST,
    ];
    Ok(as_promised.into_iter().filter(|kept| *kept).count())
}

impl Tally {
    fn add(&mut self, order: &Order, answer: Result<Answer, Failure>) {
        let Ok(answer) = answer else {
            self.unanswered += 1;
            self.may_have_happened(order);
            return;
        };
        *self.statuses.entry(answer.status).or_default() += 1;
        match answer.status {
            StatusCode::OK => {
                self.change += order.change;
                if order.path.ends_with("statement") {
                    self.statements += 1;
                    self.wrong_statements += usize::from(!adds_up(&answer.text));
                }
            }
            StatusCode::CONFLICT | StatusCode::SERVICE_UNAVAILABLE => {
                self.without_retry_after += usize::from(answer.retry_after.is_none());
            }
            StatusCode::INTERNAL_SERVER_ERROR => self.may_have_happened(order),
            _ => {}
        }
    }

    fn may_have_happened(&mut self, order: &Order) {
        self.perhaps.0 += order.change.min(0);
        self.perhaps.1 += order.change.max(0);
    }

    fn count(&self, status: u16) -> usize {
        let found = self.statuses.iter().find(|(known, _)| known.as_u16() == status);
        found.map_or(0, |(_, count)| *count)
    }
}

/// The last line of a statement is what its other lines come to.
fn adds_up(text: &str) -> bool {
    let mut sum = OPENING_BALANCE;
    for line in text.lines() {
        match line.strip_prefix("balance ") {
            Some(balance) => return balance.parse() == Ok(sum),
            None => sum += line.parse::<i64>().unwrap_or_default(),
        }
    }
    false
}

fn judge(tally: &Tally, bank: &Bank, replicas: &[Redlock], turned_away: usize) -> ExitCode {
    let known = [
        (200, "done"),
        (422, "turned away: too little money"),
        (409, "turned away: held by another"),
        (503, "turned away: no quorum, or too slow"),
        (500, "outcome unknown"),
    ];
    println!("\n{REQUESTS} requests over {ACCOUNTS} accounts and {} replicas", replicas.len());
    for (status, what) in known {
        println!("  {:>6} {what} ({status})", tally.count(status));
    }
    let answered: usize = tally.statuses.values().sum();
    let others = answered - known.iter().map(|(status, _)| tally.count(*status)).sum::<usize>();
    println!("  {others:>6} other answers\n  {:>6} not answered", tally.unanswered);
    println!("  {:>6} statements", tally.statements);

    let balances = (1..=ACCOUNTS).filter_map(|id| bank.balance(id).ok());
    let change = balances.map(|balance| balance - OPENING_BALANCE).sum::<i64>() - tally.change;
    let is_right = (tally.perhaps.0..=tally.perhaps.1).contains(&change);
    let health = replicas.iter().flat_map(Redlock::health).filter(NodeHealth::is_voting);
    let pending: usize = health.map(|node| node.pending_releases).sum();
    let (overlaps, stale) = (bank.overlaps(), bank.stale_writes());
    let (without, wrong) = (tally.without_retry_after, tally.wrong_statements);
    let promises = [
        (answered == REQUESTS && others == 0, format!("every request was answered: {answered}")),
        (tally.count(200) > 0, format!("work was done: {}", tally.count(200))),
        (overlaps == 0, format!("no two at work on one account: {overlaps} overlaps")),
        (stale == 0, format!("tokens grew with every write: {stale} stale")),
        (is_right, format!("the balances are right: off by {change}")),
        (tally.statements > 0 && wrong == 0, format!("statements add up: {wrong} do not")),
        (without == 0, format!("409 and 503 had Retry-After: {without} had not")),
        (
            turned_away == 3,
            format!("409, 200 and 400 while an account is held: {turned_away} of 3"),
        ),
        (pending == 0, format!("every lock was given back: {pending} releases pending")),
    ];
    for (held, promise) in &promises {
        println!("{} {promise}", if *held { "ok    " } else { "BROKEN" });
    }
    if promises.iter().all(|(held, _)| *held) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

//! Accounts behind axum, on two replicas that are sent many requests at once.

mod bank;
mod site;

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

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
use tower_redlock::Redlock;

use self::{
    bank::{ACCOUNTS, Bank, OPENING_BALANCE},
    site::router,
};
use crate::stories::{
    Failure, busy_machine, judge,
    nodes::{Nodes, pending_releases},
};

const REQUESTS: usize = 600;
const AT_ONCE: usize = 150;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn withdrawals_and_transfers_over_embedded_nodes() {
    let _machine = busy_machine().await;
    play(Nodes::embedded()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn withdrawals_and_transfers_over_servers() {
    let _machine = busy_machine().await;
    play(Nodes::servers().await).await.unwrap();
}

type HttpClient = Client<HttpConnector, Body>;

struct Answer {
    status: StatusCode,
    retry_after: Option<u64>,
    text: String,
}

/// A request, and by how much it changes the sum of all balances.
struct Order {
    path: String,
    change: i64,
}

#[derive(Default)]
struct Tally {
    statuses: BTreeMap<StatusCode, usize>,
    unanswered: usize,
    /// The change of the sum by what succeeded, and the range of the change by what may have.
    change: i64,
    possible: (i64, i64),
    without_retry_after: usize,
    statements: usize,
    wrong_statements: usize,
}

async fn play(nodes: Nodes) -> Result<(), Failure> {
    let replicas = [nodes.manager("a").await, nodes.manager("b").await];
    let bank = Bank::default();
    let mut addrs = Vec::new();
    for redlock in &replicas {
        addrs.push(listen(redlock.clone(), bank.clone()).await?);
    }
    let client = Client::builder(TokioExecutor::new()).build_http();
    let orders = (0..REQUESTS).map(|i| (order(i), addrs[i % addrs.len()]));
    let mut answers = stream::iter(orders)
        .map(async |(order, addr)| {
            let answer = send(&client, addr, Method::POST, &order.path).await;
            (order, answer)
        })
        .buffer_unordered(AT_ONCE);
    let mut tally = Tally::default();
    while let Some((order, answer)) = answers.next().await {
        tally.add(&order, answer);
    }
    let while_held = while_held(&client, addrs[0], &replicas[1]).await?;
    for redlock in &replicas {
        redlock.shutdown().await;
    }
    tally.judge(&bank, &replicas, while_held);
    nodes.no_lock_is_left().await;
    Ok(())
}

async fn listen(redlock: Redlock, bank: Bank) -> Result<SocketAddr, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    let server = axum::serve(listener, router(redlock, bank));
    tokio::spawn(async move { server.await.expect("axum's server does not end") });
    Ok(addr)
}

/// Deposits, withdrawals, transfers and statements in turn, over all accounts.
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

/// While an account is locked by hand: whether a change is answered with 409, a read with 200, and
/// a path without an account with 400.
async fn while_held(
    client: &HttpClient,
    addr: SocketAddr,
    redlock: &Redlock,
) -> Result<bool, Failure> {
    let lock = redlock.lock("account:1").wait(Duration::from_secs(10)).await?;
    let change = send(client, addr, Method::POST, "/accounts/1/deposit/1").await?;
    let read = send(client, addr, Method::GET, "/accounts/1").await?;
    let nameless = send(client, addr, Method::POST, "/accounts/nobody/deposit/1").await?;
    lock.release().await?;
    Ok(change.status == StatusCode::CONFLICT
        && change.retry_after.is_some_and(|after| after > 0)
        && read.status == StatusCode::OK
        && nameless.status == StatusCode::BAD_REQUEST)
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
        self.possible.0 += order.change.min(0);
        self.possible.1 += order.change.max(0);
    }

    fn count(&self, status: u16) -> usize {
        let found = self.statuses.iter().find(|(known, _)| known.as_u16() == status);
        found.map_or(0, |(_, count)| *count)
    }

    fn judge(&self, bank: &Bank, replicas: &[Redlock], while_held: bool) {
        // Done, too little money, held by another, no quorum, outcome unknown.
        let expected: usize =
            [200, 422, 409, 503, 500].map(|status| self.count(status)).iter().sum();
        let answered: usize = self.statuses.values().sum();
        println!("{REQUESTS} requests: {:?}, {} unanswered", self.statuses, self.unanswered);
        let balances = (1..=ACCOUNTS).filter_map(|id| bank.balance(id).ok());
        let off = balances.map(|balance| balance - OPENING_BALANCE).sum::<i64>() - self.change;
        let is_right = (self.possible.0..=self.possible.1).contains(&off);
        let (done, pending) = (self.count(200), pending_releases(replicas));
        let (overlaps, stale) = (bank.overlaps(), bank.stale_writes());
        let (without, wrong) = (self.without_retry_after, self.wrong_statements);
        judge(&[
            (answered == REQUESTS && expected == answered, format!("answered: {answered}")),
            (done > 0, format!("requests that were done: {done}")),
            (overlaps == 0, format!("two requests at one account: {overlaps}")),
            (stale == 0, format!("writes whose token is not above the last: {stale}")),
            (is_right, format!("the balances are right: off by {off}")),
            (self.statements > 0 && wrong == 0, format!("statements that don't add up: {wrong}")),
            (without == 0, format!("409 and 503 without Retry-After: {without}")),
            (while_held, "409, 200 and 400 while an account is held".into()),
            (pending == 0, format!("releases pending: {pending}")),
        ]);
    }
}

/// Whether the last line of a statement is the sum of its other lines.
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

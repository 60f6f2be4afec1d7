//! Requests that change an account run one at a time, across all replicas of the service.
//!
//! ```text
//! cargo run --example axum --features axum
//!
//! curl -X POST localhost:8080/accounts/1/deposit/100
//! curl -X POST localhost:8080/accounts/1/withdraw/30
//! curl -X POST localhost:8080/transfers/1/2/50
//! curl localhost:8080/accounts/1
//! ```
//!
//! `REDLOCK_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3` names the servers; without it,
//! the nodes are inside the process. `LISTEN` is the address to listen on. Ctrl-C stops it.

use std::{
    collections::HashMap,
    env,
    error::Error,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    routing::{get, post},
};
use tokio::{net::TcpListener, signal};
use tower_redlock::{FencingToken, LockContext, Redlock, RedlockLayer, key};

fn app(redlock: Redlock, accounts: Accounts) -> Router {
    let account = |param| key::path_param(param).parsed::<u64>().prefixed("account:");
    // `POST /accounts/7/deposit/10` locks `account:7`. A request that does not get the lock within
    // 500 ms is answered with 409, one that finds no quorum of nodes with 503, both with Retry-After.
    let one_account = RedlockLayer::new(redlock.clone(), account("id"));
    let one_account = one_account.wait(Duration::from_millis(500)).http();
    // `POST /transfers/1/2/10` locks both accounts at once. There is no order to get wrong.
    let two_accounts = RedlockLayer::new(redlock, key::all((account("from"), account("to"))));
    let two_accounts = two_accounts.wait(Duration::from_millis(500)).http();

    Router::new()
        .route("/accounts/{id}", get(balance))
        .route("/accounts/{id}/deposit/{amount}", post(deposit).route_layer(one_account.clone()))
        .route("/accounts/{id}/withdraw/{amount}", post(withdraw).route_layer(one_account))
        .route("/transfers/{from}/{to}/{amount}", post(transfer).route_layer(two_accounts))
        .with_state(accounts)
}

async fn balance(State(accounts): State<Accounts>, Path(id): Path<u64>) -> String {
    format!("{}\n", accounts.balance(id))
}

async fn deposit(
    State(accounts): State<Accounts>,
    Path((id, amount)): Path<(u64, u32)>,
    lock: LockContext,
) -> Result<String, StatusCode> {
    accounts.change(&[(id, i64::from(amount))], lock.fencing_token())
}

async fn withdraw(
    State(accounts): State<Accounts>,
    Path((id, amount)): Path<(u64, u32)>,
    lock: LockContext,
) -> Result<String, StatusCode> {
    accounts.change(&[(id, -i64::from(amount))], lock.fencing_token())
}

async fn transfer(
    State(accounts): State<Accounts>,
    Path((from, to, amount)): Path<(u64, u64, u32)>,
    lock: LockContext,
) -> Result<String, StatusCode> {
    let amount = i64::from(amount);
    accounts.change(&[(from, -amount), (to, amount)], lock.fencing_token())
}

/// Stands for a database: the balance of each account, and the token of its last change.
#[derive(Clone, Default)]
struct Accounts(Arc<Mutex<HashMap<u64, (i64, FencingToken)>>>);

impl Accounts {
    fn balance(&self, id: u64) -> i64 {
        self.0.lock().unwrap().get(&id).map_or(0, |(balance, _)| *balance)
    }

    /// All of the changes or none, as `UPDATE … WHERE token < $token` in one transaction. A handler
    /// that was delayed beyond the end of its lock has an older token than its successor.
    fn change(&self, changes: &[(u64, i64)], token: FencingToken) -> Result<String, StatusCode> {
        let mut accounts = self.0.lock().unwrap();
        let mut after = accounts.clone();
        for (id, amount) in changes {
            let (balance, last) = after.entry(*id).or_default();
            if token < *last {
                return Err(StatusCode::PRECONDITION_FAILED);
            }
            (*balance, *last) = (*balance + amount, token);
            if *balance < 0 {
                return Err(StatusCode::UNPROCESSABLE_ENTITY);
            }
        }
        *accounts = after;
        Ok(format!("after under token {token}\n"))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let redlock = match env::var("REDLOCK_NODES") {
        Ok(urls) => Redlock::builder().nodes(urls.split(',')).build()?,
        Err(_) => Redlock::embedded(),
    };
    // A new or restarted server votes after `max_ttl` (10 s): it may have forgotten locks.
    redlock.ready_within(Duration::from_secs(60)).await?;

    let listen = env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:8080".into());
    let listener = TcpListener::bind(listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app(redlock.clone(), Accounts::default()))
        .with_graceful_shutdown(async { signal::ctrl_c().await.unwrap_or_default() })
        .await?;
    // Waits until the nodes have acknowledged every release.
    redlock.shutdown().await;
    Ok(())
}

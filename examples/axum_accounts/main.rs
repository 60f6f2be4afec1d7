//! Accounts behind axum: what changes an account runs one at a time, a transfer locks both of its
//! accounts at once, a statement keeps its account until its last line is sent, and reads need no
//! lock.
//!
//! ```text
//! cargo run --release --features axum --example axum_accounts               serve until Ctrl-C
//! cargo run --release --features axum --example axum_accounts -- --check    drive itself, and judge
//!
//! curl -X POST http://127.0.0.1:8080/accounts/1/deposit/10
//! curl -X POST http://127.0.0.1:8080/transfers/1/2/10
//! curl -X POST http://127.0.0.1:8080/accounts/2/statement
//! curl http://127.0.0.1:8080/accounts/2
//! ```
//!
//! With `REDLOCK_NODES=redis://…,redis://…,redis://…` over real servers, else over nodes inside the
//! process.
//!
//! Read first: [`router`], which is all that an application needs. `bank.rs` stands for a database
//! that checks fencing tokens; `check.rs` drives.

mod bank;
mod check;

use std::{error::Error, process::ExitCode, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Path, Request, State},
    http::Method,
    routing::{get, post},
};
use tokio::net::TcpListener;
use tower_redlock::{
    LockContext, Redlock, RedlockBuilder, RedlockLayer, Resource, layer::KeyError,
    node::EmbeddedNodes,
};

use crate::bank::{Bank, Refused};

fn router(redlock: Redlock, bank: Bank) -> Router {
    // Who does not get its turn within the wait is answered 409 with Retry-After; without a
    // quorum of nodes 503; a request that lost its lock 500, its outcome unknown.
    let one_at_a_time =
        RedlockLayer::new(redlock, accounts).wait(Duration::from_millis(500)).http();
    Router::new()
        .route("/accounts/{id}", get(balance))
        .route("/accounts/{id}/deposit/{amount}", post(deposit))
        .route("/accounts/{id}/withdraw/{amount}", post(withdraw))
        .route("/accounts/{id}/statement", post(statement))
        .route("/transfers/{from}/{to}/{amount}", post(transfer))
        .route_layer(one_at_a_time)
        .with_state(bank)
}

/// What a request is about: an account, or both of a transfer. Reads need no lock.
///
/// Made from numbers, not from text, so that `/accounts/7` and `/accounts/07` are one account here
/// as they are to the handlers.
fn accounts(request: &Request) -> Result<Option<Resource>, KeyError> {
    if request.method() == Method::GET {
        return Ok(None);
    }
    let mut path = request.uri().path().split('/').skip(1);
    let names = if path.next() == Some("transfers") { 2 } else { 1 };
    let name = |segment: &str| match segment.parse::<usize>() {
        Ok(id) => Ok(format!("account:{id}")),
        Err(_) => Err(KeyError::new("an account is a number")),
    };
    let names = path.take(names).map(name).collect::<Result<Vec<_>, _>>()?;
    Ok(Some(Resource::new(names)?))
}

async fn balance(State(bank): State<Bank>, Path(id): Path<usize>) -> Result<String, Refused> {
    Ok(format!("{}\n", bank.balance(id)?))
}

async fn deposit(
    State(bank): State<Bank>,
    Path((id, amount)): Path<(usize, u32)>,
    lock: LockContext,
) -> Result<(), Refused> {
    bank.change(&[(id, i64::from(amount))], &lock).await
}

async fn withdraw(
    State(bank): State<Bank>,
    Path((id, amount)): Path<(usize, u32)>,
    lock: LockContext,
) -> Result<(), Refused> {
    bank.change(&[(id, -i64::from(amount))], &lock).await
}

async fn transfer(
    State(bank): State<Bank>,
    Path((from, to, amount)): Path<(usize, usize, u32)>,
    lock: LockContext,
) -> Result<(), Refused> {
    if from == to {
        return Err(Refused::SameAccount);
    }
    let amount = i64::from(amount);
    bank.change(&[(from, -amount), (to, amount)], &lock).await
}

/// The lock is held until the body has ended: nothing changes between the first line and the last.
async fn statement(State(bank): State<Bank>, Path(id): Path<usize>) -> Result<Body, Refused> {
    Ok(Body::from_stream(bank.statement(id)?))
}

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => serve().await,
        ["--check"] => check::run().await,
        _ => Err("usage: axum_accounts [--check]".into()),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("axum_accounts: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Result<ExitCode, Box<dyn Error>> {
    let redlock = manager(nodes()).await?;
    let listener = TcpListener::bind("127.0.0.1:8080").await?;
    println!("http://{}; Ctrl-C stops it", listener.local_addr()?);
    let stop = async { tokio::signal::ctrl_c().await.expect("the system takes a handler") };
    axum::serve(listener, router(redlock.clone(), Bank::default()))
        .with_graceful_shutdown(stop)
        .await?;
    // Until the nodes know of every lock that was given back.
    redlock.shutdown().await;
    Ok(ExitCode::SUCCESS)
}

/// What all replicas of the service are to share.
fn nodes() -> impl Fn() -> RedlockBuilder {
    let given = std::env::var("REDLOCK_NODES").unwrap_or_default();
    let embedded = EmbeddedNodes::new(5);
    move || match given.as_str() {
        "" => Redlock::builder().nodes_from(&embedded),
        urls => Redlock::builder().nodes(urls.split(',').map(str::trim)),
    }
}

async fn manager(nodes: impl Fn() -> RedlockBuilder) -> Result<Redlock, Box<dyn Error>> {
    let redlock = nodes().build()?;
    // Servers that are new to this set vote after 10 s: they might have forgotten locks.
    redlock.ready_within(Duration::from_secs(30)).await?;
    Ok(redlock)
}

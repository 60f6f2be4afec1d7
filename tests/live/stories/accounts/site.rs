//! The service: each change of an account runs under the account's lock, a transfer under both, a
//! statement until its last line is sent; reads need no lock.

use std::time::Duration;

use axum::{
    Router,
    body::Body,
    extract::{Path, Request, State},
    http::Method,
    routing::{get, post},
};
use tower_redlock::{LockContext, Redlock, RedlockLayer, Resource, layer::KeyError};

use super::bank::{Bank, Refused};

pub(crate) fn router(redlock: Redlock, bank: Bank) -> Router {
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

/// The account of a request, or both of a transfer; none of a read.
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

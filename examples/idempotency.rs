//! A payment that a client sends again is made once, and gets the same response.
//!
//! ```text
//! cargo run --example idempotency --features axum,once
//!
//! curl -i localhost:8080/payments -H 'authorization: Bearer alice' \
//!   -H 'idempotency-key: "8e03978e"' -d 'amount=7'
//! ```
//!
//! Run the `curl` command twice: the second response has the same payment id, and the header
//! `idempotency-replayed: true`. With another body under the same key it is 422.
//!
//! `REDLOCK_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3` names the servers; without it,
//! the nodes are inside the process. `LISTEN` is the address to listen on. Ctrl-C stops it.

use std::{
    env,
    error::Error,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use axum::{
    Router,
    extract::Request,
    http::{StatusCode, header::AUTHORIZATION},
    middleware::{self, Next},
    response::Response,
    routing::post,
};
use tokio::{net::TcpListener, signal};
use tower_redlock::{OnceLayer, Redlock, key};

fn app(redlock: Redlock) -> Router {
    // Keys belong to the caller, so no client gets the response to another client's request.
    let caller = key::extension(|user: &User| format!("user:{}", user.0));
    // The default retention is 96 hours. Answers up to 64 KiB are kept on the lock's servers.
    let once = OnceLayer::idempotency(redlock, "payments")
        .scope(caller)
        .retain(Duration::from_secs(24 * 3600));
    Router::new()
        .route("/payments", post(pay).route_layer(once))
        // The layer that is added last is the outermost, so the inner ones know the caller.
        .route_layer(middleware::from_fn(authenticate))
}

async fn pay(amount: String) -> (StatusCode, String) {
    static NEXT_ID: AtomicU64 = AtomicU64::new(1);
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    println!("payment {id}: {amount}");
    (StatusCode::CREATED, format!("payment {id}\n"))
}

#[derive(Clone)]
struct User(String);

/// Represents the check of a token, which is taken as the name of the user.
async fn authenticate(mut request: Request, next: Next) -> Result<Response, StatusCode> {
    let token = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let user = token.and_then(|token| token.strip_prefix("Bearer "));
    let user = User(user.ok_or(StatusCode::UNAUTHORIZED)?.to_owned());
    request.extensions_mut().insert(user);
    Ok(next.run(request).await)
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
    axum::serve(listener, app(redlock.clone()))
        .with_graceful_shutdown(async { signal::ctrl_c().await.unwrap_or_default() })
        .await?;
    // Waits for requests whose clients disconnected, and for the acknowledgement of every release.
    redlock.shutdown().await;
    Ok(())
}

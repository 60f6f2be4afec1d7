//! At most five exports run at a time, and two of each tenant, across all replicas of the service.
//!
//! ```text
//! cargo run --example limits --features axum
//!
//! for i in 1 2 3; do curl -s -X POST localhost:8080/exports/acme & done; wait
//! ```
//!
//! An export takes two seconds. The third one gets 429. With `/exports/a`, `/exports/b` and so on,
//! the sixth waits for its turn.
//!
//! `REDLOCK_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3` names the servers; without it,
//! the nodes are inside the process. `LISTEN` is the address to listen on. Ctrl-C stops it.

use std::{env, error::Error, time::Duration};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, Request},
    http::{Response, StatusCode},
    routing::post,
};
use tokio::{net::TcpListener, signal, time::sleep};
use tower_redlock::{LockContext, Redlock, RedlockLayer, key, reject::Rejection};

fn app(redlock: Redlock) -> Router {
    // A tenant that exports twice already is refused at once.
    let tenant = key::path_param("tenant").prefixed("export:");
    let two_each = RedlockLayer::new(redlock.clone(), tenant).slots(2).http();
    let two_each = two_each.on_reject(too_many_requests);
    // All tenants share five slots, for which an export waits.
    let five = RedlockLayer::new(redlock, |_: &Request| "exports").slots(5);
    let five = five.wait(Duration::from_secs(30)).http();

    // The layer that is added last is the outermost: a refused tenant takes none of the five.
    let export = post(export).route_layer(five).route_layer(two_each);
    Router::new().route("/exports/{tenant}", export)
}

/// Answers 429 where all slots are held: the client sent too many. The default is 503, the service has
/// too few. Both have `Retry-After`.
fn too_many_requests(rejection: Rejection<'_>) -> Response<Bytes> {
    let mut response = rejection.response();
    if rejection.code() == "full" {
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    }
    response
}

/// Has the lock of the innermost layer. Among the five running exports, no two have the same slot:
/// its number can choose one of five directories, connections or ports.
async fn export(Path(tenant): Path<String>, lock: LockContext) -> String {
    let slot = lock.slot().unwrap_or_default();
    println!("exporting {tenant} in slot {slot}");
    sleep(Duration::from_secs(2)).await;
    format!("exported {tenant} in slot {slot}\n")
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
    // Waits until the nodes have acknowledged every release.
    redlock.shutdown().await;
    Ok(())
}

//! A holder that is delayed beyond the end of its lock can't overwrite its successor's work.
//!
//! ```text
//! cargo run --example fencing --features fencing,http
//! ```
//!
//! `REDLOCK_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3` names the servers; without it,
//! the nodes are inside the process. It ends by itself.

use std::{
    collections::HashMap,
    convert::Infallible,
    env,
    error::Error,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{Path, State},
    http::{Request, StatusCode},
    routing::put,
};
use tower::ServiceExt;
use tower_redlock::{FencingLayer, FencingToken, Redlock, key};

/// Represents files on a disk.
type Files = Arc<Mutex<HashMap<String, String>>>;

/// The service that owns the files. It keeps the newest token of each, and rejects requests with an
/// older one with 412 before the handler runs.
fn storage(files: Files) -> Router {
    let fence = FencingLayer::new(key::path_segment(1).prefixed("file:")).http();
    Router::new().route("/files/{name}", put(write).route_layer(fence)).with_state(files)
}

async fn write(State(files): State<Files>, Path(name): Path<String>, content: String) {
    files.lock().unwrap().insert(name, content);
}

/// Sends a request to the storage, with the token of its lock.
async fn put_file(
    storage: &Router,
    name: &str,
    content: &str,
    token: FencingToken,
) -> Result<StatusCode, Infallible> {
    let request = Request::put(format!("/files/{name}")).header("fencing-token", token.get());
    let request = request.body(Body::from(content.to_owned())).expect("a valid request");
    Ok(storage.clone().oneshot(request).await?.status())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let redlock = match env::var("REDLOCK_NODES") {
        Ok(urls) => Redlock::builder().nodes(urls.split(',')).build()?,
        Err(_) => Redlock::embedded(),
    };
    // A new or restarted server votes after `max_ttl` (10 s): it may have forgotten locks.
    redlock.ready_within(Duration::from_secs(60)).await?;
    let files = Files::default();
    let storage = storage(Arc::clone(&files));

    // Alice's lock is not renewed, as if her machine were suspended after she checked the lock.
    let name = "file:report";
    let alice = redlock.lock(name).ttl(Duration::from_secs(1)).auto_extend(false).await?;
    let token = alice.fencing_token();
    println!("alice has the lock with token {token}");
    println!("alice writes a draft: {}", put_file(&storage, "report", "a draft", token).await?);

    // Bob waits until it has expired. His token is greater.
    let bob = redlock.lock(name).wait(Duration::from_secs(5)).await?;
    println!("bob has the lock with token {}", bob.fencing_token());
    let written = put_file(&storage, "report", "bob's report", bob.fencing_token()).await?;
    println!("bob writes his report: {written}");

    // Alice continues, and does not know that her lock has expired.
    let late = put_file(&storage, "report", "alice's report", token).await?;
    println!("alice writes her report, too late: {late}");
    println!("the storage has: {}", files.lock().unwrap()["report"]);

    bob.release().await?;
    redlock.shutdown().await;
    Ok(())
}

//! Requests that read a page run side by side, and a request that writes it runs alone, across all
//! replicas of the service.
//!
//! ```text
//! cargo run --example readers --features axum
//!
//! curl -X PUT localhost:8080/pages/tea -d 'green tea'
//! for i in 1 2 3; do curl localhost:8080/pages/tea & done; wait
//! ```
//!
//! A read takes two seconds, and so do three at a time. A write waits for the reads that have begun;
//! reads that come later wait for it.
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
    routing::get,
};
use tokio::{net::TcpListener, signal, time::sleep};
use tower_redlock::{LockContext, Redlock, RedlockLayer, key};

/// Represents a storage that all replicas use. A page is two files, which are written one after the
/// other: a read between the two would see a new text with an old title.
type Files = Arc<Mutex<HashMap<String, String>>>;

fn app(redlock: Redlock) -> Router {
    let page = key::path_param("name").prefixed("page:");
    let readers_or_one_writer = RedlockLayer::new(redlock, page)
        .wait(Duration::from_secs(30))
        .http()
        // GET and HEAD take a shared lock, PUT takes an exclusive one.
        .shared_for(|head| head.method().is_safe());

    Router::new()
        .route("/pages/{name}", get(read).put(write).route_layer(readers_or_one_writer))
        .with_state(Files::default())
}

async fn read(State(files): State<Files>, Path(name): Path<String>) -> Result<String, StatusCode> {
    let file = |name| files.lock().unwrap().get(&name).cloned().ok_or(StatusCode::NOT_FOUND);
    println!("reading {name}");
    let title = file(format!("{name}.title"))?;
    sleep(Duration::from_secs(2)).await;
    let text = file(format!("{name}.text"))?;
    println!("read {name}");
    Ok(format!("{title}: {text}\n"))
}

async fn write(
    State(files): State<Files>,
    Path(name): Path<String>,
    lock: LockContext,
    text: String,
) -> String {
    println!("writing {name}");
    let title = text.to_uppercase();
    files.lock().unwrap().insert(format!("{name}.title"), title);
    sleep(Duration::from_secs(1)).await;
    files.lock().unwrap().insert(format!("{name}.text"), text);
    println!("wrote {name}");
    // Greater than the token of each read before, and of each write.
    format!("written under token {}\n", lock.fencing_token())
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

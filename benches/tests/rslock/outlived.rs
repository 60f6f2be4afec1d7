//! A handler takes longer than the TTL of its lock.

use std::{
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    Router,
    body::Body,
    http::{Request, StatusCode},
    routing::post,
};
use tokio::sync::oneshot;
use tower::ServiceExt;
use tower_redlock::{LockError, RedlockLayer};

use crate::{
    clients::{NAME, SHORT, redlock, rslock, set_nx_px},
    support::{HANG_GUARD, LONG, RedisServer, all_vote, eventually, eventually_async, in_time},
};

#[tokio::test]
async fn by_hand_works_beside_next_holder() {
    let server = RedisServer::start();
    let (go, gone) = oneshot::channel();
    assert!(set_nx_px(&server, SHORT));
    let handler = tokio::spawn(async { gone.await.map(|()| "done") });

    eventually("the lock expires", || set_nx_px(&server, LONG));
    go.send(()).unwrap();

    assert_eq!(handler.await.unwrap(), Ok("done"), "nothing stops the handler");
    assert!(server.exists(NAME), "the next holder has the lock");
}

#[tokio::test]
async fn rslock_works_beside_next_holder() {
    let servers = RedisServer::start_n(3);
    let urls: Vec<_> = servers.iter().map(RedisServer::plain_url).collect();
    let (first, second) = (rslock(urls.clone()), rslock(urls));
    let (go, gone) = oneshot::channel();
    let _held = first.lock(NAME, SHORT).await.unwrap();
    let handler = tokio::spawn(async { gone.await.map(|()| "done") });

    eventually_async("the lock expires", async || second.lock(NAME, LONG).await.is_ok()).await;
    go.send(()).unwrap();

    assert_eq!(handler.await.unwrap(), Ok("done"), "nothing stops the handler");
    let holding = servers.iter().filter(|server| server.exists(NAME)).count();
    assert!(holding > 1, "the next holder has the lock");
}

/// Sets a flag when the handler's future is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn ours_renews_until_max_hold_and_stops_the_handler() {
    let servers = RedisServer::start_n(3);
    let urls: Vec<_> = servers.iter().map(RedisServer::plain_url).collect();
    let (first, second) = (redlock(urls.clone()), redlock(urls));
    all_vote(&first).await;
    all_vote(&second).await;
    let dropped = Arc::new(AtomicBool::new(false));
    let (begun, begins) = oneshot::channel();
    let begun = Arc::new(Mutex::new(Some(begun)));
    let flag = dropped.clone();
    let handler = async move || {
        let _flag = Dropped(flag);
        begun.lock().unwrap().take().unwrap().send(()).unwrap();
        pending::<()>().await;
    };
    let locked = RedlockLayer::new(first, |_: &Request<Body>| NAME).max_hold(SHORT * 4).http();
    let app = Router::new().route("/", post(handler).layer(locked));
    let response = tokio::spawn(app.oneshot(Request::post("/").body(Body::empty()).unwrap()));
    in_time(begins).await.unwrap();

    let during = in_time(async { second.lock(NAME).wait(SHORT * 2).await }).await;
    assert!(!dropped.load(Ordering::SeqCst), "the handler runs for two TTLs");
    assert!(matches!(during, Err(ref error) if matches!(error.root(), LockError::Held { .. })));
    let next = in_time(async { second.lock(NAME).wait(HANG_GUARD).await }).await.unwrap();

    assert!(dropped.load(Ordering::SeqCst), "the handler ended before the next holder began");
    assert!(next.is_valid());
    let response = response.await.unwrap().unwrap();
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR, "the outcome is unknown");
}

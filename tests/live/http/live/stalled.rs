//! A runtime that a handler blocks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Router, extract::Request};
use http::Method;
use tower_redlock::{Redlock, RedlockLayer};

use super::{
    client::{Client, http1},
    site::{manager, serve},
};
use crate::support::{RedisServer, eventually};

const TTL: Duration = Duration::from_secs(2);

const BEFORE: usize = 0;
const INSIDE: usize = 1;
const AFTER: usize = 2;

#[test]
fn blocking_handler_keeps_lock_and_response() {
    let servers = Arc::new(RedisServer::start_n(3));
    let stage = Arc::new(AtomicUsize::new(BEFORE));
    let site = {
        let (servers, stage) = (Arc::clone(&servers), Arc::clone(&stage));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                let builder = Redlock::builder().ttl(TTL).node_timeout(TTL / 10);
                let redlock = manager(&servers, builder).await;
                let layer = RedlockLayer::new(redlock, |_: &Request| "a").http();
                let app = Router::new().fallback(async move || {
                    stage.store(INSIDE, Ordering::SeqCst);
                    std::thread::sleep(3 * TTL / 2);
                    stage.store(AFTER, Ordering::SeqCst);
                    "done"
                });
                let client = Client::new(http1(), serve(app.layer(layer)).await);
                client.send(Method::POST, "/").await.unwrap()
            })
        })
    };
    eventually("the handler blocks", || stage.load(Ordering::SeqCst) == INSIDE);
    // A quorum granted it; the last server may still be processing it.
    let is_held = |server: &RedisServer| server.pttl("redlock:lock:a") > 0;
    eventually("every server keeps the key", || servers.iter().all(is_held));
    let mut looks = 0;

    loop {
        let held: Vec<bool> = servers.iter().map(is_held).collect();
        if stage.load(Ordering::SeqCst) == AFTER {
            break;
        }
        assert_eq!(held, [true; 3], "look {looks}");
        looks += 1;
        std::thread::sleep(Duration::from_millis(10));
    }

    assert!(looks > 20, "{looks}");

    let answer = site.join().unwrap();
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, "done"));

    eventually("it is given back", || {
        !servers.iter().any(|server| server.exists("redlock:lock:a"))
    });
}

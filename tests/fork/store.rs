//! A store of answers on a server, whose thread the child lacks.

use std::{
    pin::pin,
    process,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures_util::FutureExt;
use tower_redlock::{
    FencingToken, LockError,
    once::{RedisStore, ResponseStore, StoreError, StoredHeaders, StoredResponse},
};

use crate::child::in_child;
use crate::support::{HANG_GUARD, RedisServer};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn response() -> Arc<StoredResponse> {
    let (parts, body) = http::Response::new("x".into()).into_parts();
    Arc::new(StoredResponse::new(&parts, body, &StoredHeaders::default()))
}

fn assert_forked(error: &StoreError, parent: u32) {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref());
    assert_eq!(source, Some(&LockError::Forked { built_in: parent }));
}

/// All futures are ready at the first poll: no thread of the child could wake them.
#[test]
fn earlier_queries_fail_in_child() {
    let server = RedisServer::start();
    let store = RedisStore::builder(server.plain_url()).timeout(HANG_GUARD).build().unwrap();
    server.freeze();
    let (parent, token) = (process::id(), FencingToken::new(1));
    let (mut put, mut get) = (pin!(store.put("a", response(), DAY, token)), pin!(store.get("a")));

    let mut cx = Context::from_waker(Waker::noop());

    // Waits with a timer.
    assert!(put.as_mut().poll(&mut cx).is_pending() && get.as_mut().poll(&mut cx).is_pending());

    let mut unpolled = Some(store.get("a"));
    in_child(|| {
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(Err(error)) = put.as_mut().poll(&mut cx) else { panic!("it waits") };
        assert_forked(&error, parent);
        let Poll::Ready(Err(error)) = get.as_mut().poll(&mut cx) else { panic!("it waits") };
        assert_forked(&error, parent);
        let error = unpolled.take().unwrap().now_or_never().expect("ready at once");
        assert_forked(&error.unwrap_err(), parent);
        let error = store.get("b").now_or_never().expect("ready at once");
        assert_forked(&error.unwrap_err(), parent);
    });
    server.thaw();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        put.await.unwrap();
        assert!(get.await.unwrap().is_some());
    });
}

/// At the fork, the thread that the child lacks may hold the timers' mutex.
#[test]
fn children_drop_requests_of_busy_parent() {
    const FORKS: usize = 200;
    let server = RedisServer::start();
    let store = RedisStore::builder(server.plain_url()).timeout(HANG_GUARD).build().unwrap();
    let over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_over = {
        let over = Arc::clone(&over);
        move || over.load(std::sync::atomic::Ordering::Relaxed)
    };
    let asking: Vec<_> = (0..2)
        .map(|_| {
            let (store, is_over) = (store.clone(), is_over.clone());
            std::thread::spawn(move || {
                let mut cx = Context::from_waker(Waker::noop());
                while !is_over() {
                    // Each inserts a timer and removes it.
                    let _ = pin!(store.get("busy")).poll(&mut cx);
                }
            })
        })
        .collect();
    for _ in 0..FORKS {
        let mut got = Some(Box::pin(store.get("a")));
        let mut cx = Context::from_waker(Waker::noop());
        let _ = got.as_mut().unwrap().as_mut().poll(&mut cx);
        in_child(|| drop(got.take()));
    }
    over.store(true, std::sync::atomic::Ordering::Relaxed);

    for asking in asking {
        asking.join().unwrap();
    }
}

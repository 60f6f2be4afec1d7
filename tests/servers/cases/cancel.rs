//! Futures that are dropped before they are done.

use std::{future::IntoFuture, panic::AssertUnwindSafe, pin::pin, task::Context, time::Duration};

use futures_util::FutureExt;
use tower_redlock::{LockError, Redlock};

use crate::fixture::{
    Fixture, HANG_GUARD, LONG, Proxy, all_answered, eventually_async, key, patient, poll_once,
    runtime,
};

/// No client holds the name: one attempt acquires it.
async fn is_free(fixture: &Fixture, redlock: &Redlock) {
    fixture.all_keys_gone().await;
    redlock.lock("x").await.expect("free").release().await.expect("released");
}

#[tokio::test]
async fn dropped_acquire_leaves_nothing() {
    let (fixture, redlock) = Fixture::patient_proxied().await;
    // The request is dropped while its commands are on their way.
    fixture.proxies.iter().for_each(Proxy::stall);
    let sent = || fixture.proxies.iter().map(Proxy::bytes_up).sum::<u64>();
    let before = sent();
    let mut acquire = redlock.lock("x").into_future();
    assert!(poll_once(&mut acquire).is_pending());
    eventually_async("the requests are sent", async || sent() > before).await;
    drop(acquire);
    fixture.proxies.iter().for_each(Proxy::resume);
    is_free(&fixture, &redlock).await;

    // It is dropped before its answers arrive.
    fixture.proxies.iter().for_each(|proxy| proxy.set_delay(Duration::from_millis(100)));
    let mut acquire = redlock.lock("x").into_future();
    assert!(poll_once(&mut acquire).is_pending());
    fixture.keys_everywhere().await;
    drop(acquire);
    fixture.proxies.iter().for_each(|proxy| proxy.set_delay(Duration::ZERO));
    is_free(&fixture, &redlock).await;

    // It is dropped at any time.
    for micros in (0..4_000).step_by(40) {
        let acquire = redlock.lock("x").wait(HANG_GUARD).into_future();
        let _ = tokio::time::timeout(Duration::from_micros(micros), acquire).await;
    }
    is_free(&fixture, &redlock).await;
}

#[tokio::test]
async fn acquire_dropped_between_tries_leaves_nothing() {
    let fixture = Fixture::new(3);
    let redlock = fixture.proxied(patient().retry_delay(LONG..=LONG)).await;
    fixture.servers[..2].iter().for_each(|server| server.set(&key("x"), "foreign"));
    let mut acquire = pin!(Some(redlock.lock("x").wait(LONG).into_future()));
    let mut poll = || {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        acquire.as_mut().as_pin_mut().expect("a pending request").poll(&mut cx)
    };
    assert!(poll().is_pending());
    eventually_async("the attempt ends", async || {
        assert!(poll().is_pending());
        fixture.key_counts() == [1, 1, 0]
    })
    .await;
    all_answered(&redlock).await;
    acquire.set(None);
    for server in &fixture.servers[..2] {
        server.cli(&["DEL", &key("x")]);
    }
    is_free(&fixture, &redlock).await;
}

#[tokio::test]
async fn work_that_ends_early_releases_the_lock() {
    let (fixture, redlock) = Fixture::patient_proxied().await;
    let mut dropped = Box::pin(redlock.lock("x").run(|_| std::future::pending::<()>()));
    eventually_async("the work runs", async || {
        assert!(poll_once(&mut dropped).is_pending());
        fixture.key_counts() == [1, 1, 1]
    })
    .await;
    drop(dropped);
    is_free(&fixture, &redlock).await;

    let run = redlock.lock("x").run(|_| async { panic!("on purpose") });
    AssertUnwindSafe(run).catch_unwind().await.unwrap_err();
    is_free(&fixture, &redlock).await;

    let in_task = redlock.clone();
    let task = tokio::spawn(async move {
        let _lock = in_task.lock("x").await.unwrap();
        panic!("on purpose, while a lock is held");
    });
    assert!(task.await.unwrap_err().is_panic());
    is_free(&fixture, &redlock).await;

    // The closure that creates the work panics.
    let make = |_| -> std::future::Ready<()> { panic!("on purpose") };
    AssertUnwindSafe(redlock.lock("x").run(make)).catch_unwind().await.unwrap_err();
    is_free(&fixture, &redlock).await;
}

#[test]
fn lock_dropped_outside_runtime_is_released() {
    let fixture = Fixture::new(3);
    let first = runtime();
    let redlock = first.block_on(fixture.proxied(patient()));
    let [a, b] = ["x", "y"].map(|name| first.block_on(async { redlock.lock(name).await.unwrap() }));
    drop(first);
    drop(a);
    std::thread::spawn(move || drop(b)).join().unwrap();
    runtime().block_on(is_free(&fixture, &redlock));
}

#[tokio::test]
async fn dropped_acquires_answer_is_not_reused() {
    let (fixture, redlock) = Fixture::patient_proxied().await;
    let other = fixture.direct(patient().owner("other")).await;
    fixture.proxies.iter().for_each(|proxy| proxy.set_delay(Duration::from_millis(100)));
    let mut dropped = redlock.lock("x").into_future();
    assert!(poll_once(&mut dropped).is_pending());
    fixture.keys_everywhere().await;
    drop(dropped);
    // The name becomes free and is taken by another before the late grants arrive.
    fixture.all_keys_gone().await;
    let lock = other.lock("x").await.unwrap();
    let result = redlock.lock("x").await;
    let Err(LockError::Held { owner, .. }) = result else { panic!("{result:?}") };
    assert_eq!(owner.as_deref(), Some("other"));
    assert!(lock.is_valid());
    assert!(poll_once(&mut lock.lost()).is_pending());
}

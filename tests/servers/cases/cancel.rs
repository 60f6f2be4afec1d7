//! Futures that are dropped before they are done.

use std::{
    future::IntoFuture,
    panic::AssertUnwindSafe,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures_util::FutureExt;
use tower_redlock::{LockError, Redlock};

use super::scene::{LONG, Scene, key, patient, poll_once};
use crate::support::{HANG_GUARD, Proxy, eventually_async};

/// No client holds the name: one attempt acquires it.
async fn is_free(scene: &Scene, redlock: &Redlock) {
    scene.all_keys_gone().await;
    redlock.lock("x").await.expect("free").release().await.expect("released");
}

#[tokio::test]
async fn acquire_dropped_unpolled_sends_nothing() {
    let scene = Scene::new(3);
    let redlock = scene.proxied(patient()).await;
    drop(redlock.lock("x").into_future());
    is_free(&scene, &redlock).await;
}

#[tokio::test]
async fn acquire_dropped_in_flight_leaves_nothing() {
    let scene = Scene::new(3);
    let redlock = scene.proxied(patient()).await;
    scene.proxies.iter().for_each(Proxy::stall);
    let up = || scene.proxies.iter().map(Proxy::bytes_up).sum::<u64>();
    let before = up();

    let mut acquire = redlock.lock("x").into_future();

    assert!(poll_once(&mut acquire).is_pending());

    eventually_async("the requests are sent", async || up() > before).await;
    drop(acquire);
    scene.proxies.iter().for_each(Proxy::resume);
    is_free(&scene, &redlock).await;
}

#[tokio::test]
async fn acquire_dropped_before_answers_leaves_nothing() {
    let scene = Scene::new(3);
    let redlock = scene.proxied(patient()).await;
    scene.proxies.iter().for_each(|proxy| proxy.set_delay(Duration::from_millis(100)));
    let mut acquire = redlock.lock("x").into_future();
    assert!(poll_once(&mut acquire).is_pending());
    scene.keys_everywhere().await;
    drop(acquire);
    is_free(&scene, &redlock).await;
}

#[tokio::test]
async fn acquire_dropped_between_tries_leaves_nothing() {
    let scene = Scene::new(3);
    let redlock = scene.proxied(patient().retry_delay(LONG..=LONG)).await;
    scene.servers[..2].iter().for_each(|server| server.set(&key("x"), "foreign"));
    let mut acquire = pin!(Some(redlock.lock("x").wait(LONG).into_future()));

    let mut poll = || {
        let mut cx = Context::from_waker(Waker::noop());
        acquire.as_mut().as_pin_mut().expect("a pending request").poll(&mut cx)
    };

    assert!(poll().is_pending());

    eventually_async("the attempt ends", async || {
        assert!(poll().is_pending());
        scene.key_counts() == [1, 1, 0] && redlock.health().iter().all(|n| n.in_flight == 0)
    })
    .await;
    acquire.set(None);
    for server in &scene.servers[..2] {
        server.cli(&["DEL", &key("x")]);
    }
    is_free(&scene, &redlock).await;
}

#[tokio::test]
async fn acquire_dropped_anytime_leaves_nothing() {
    let scene = Scene::new(3);
    let redlock = scene.proxied(patient()).await;
    for micros in (0..4_000).step_by(40) {
        let acquire = redlock.lock("x").wait(HANG_GUARD).into_future();
        let _ = tokio::time::timeout(Duration::from_micros(micros), acquire).await;
    }
    is_free(&scene, &redlock).await;
}

#[tokio::test]
async fn waiter_dropped_in_line_unblocks_others() {
    let scene = Scene::new(3);
    let redlock = scene.proxied(patient()).await;
    let lock = redlock.lock("x").await.unwrap();
    let mut first = redlock.lock("x").wait(HANG_GUARD).into_future();

    let mut second = redlock.lock("x").wait(HANG_GUARD).into_future();

    assert!(poll_once(&mut first).is_pending() && poll_once(&mut second).is_pending());

    drop(lock);
    drop(first);
    drop(second.await.unwrap());
    is_free(&scene, &redlock).await;
}

#[tokio::test]
async fn run_dropped_halfway_leaves_no_key() {
    let scene = Scene::new(3);
    let redlock = scene.proxied(patient()).await;
    let mut running = Box::pin(redlock.lock("x").run(|_| std::future::pending::<()>()));
    eventually_async("the work runs", async || {
        assert!(poll_once(&mut running).is_pending());
        scene.key_counts() == [1, 1, 1]
    })
    .await;
    drop(running);

    is_free(&scene, &redlock).await;
}

#[tokio::test]
async fn work_that_panics_releases_the_lock() {
    let scene = Scene::new(3);
    let redlock = scene.proxied(patient()).await;
    let run = redlock.lock("x").run(|_| async { panic!("on purpose") });
    AssertUnwindSafe(run).catch_unwind().await.unwrap_err();
    is_free(&scene, &redlock).await;

    let in_task = redlock.clone();
    let task = tokio::spawn(async move {
        in_task.lock("x").run(|_| async { panic!("on purpose") }).await.unwrap();
    });
    assert!(task.await.unwrap_err().is_panic());
    is_free(&scene, &redlock).await;

    let in_task = redlock.clone();
    let task = tokio::spawn(async move {
        let _lock = in_task.lock("x").await.unwrap();
        panic!("on purpose, while a lock is held");
    });
    assert!(task.await.unwrap_err().is_panic());
    is_free(&scene, &redlock).await;

    // The closure that creates the work panics.
    let make = |_| -> std::future::Ready<()> { panic!("on purpose") };
    let run = redlock.lock("x").run(make);
    AssertUnwindSafe(run).catch_unwind().await.unwrap_err();
    is_free(&scene, &redlock).await;
}

#[test]
fn lock_dropped_outside_runtime_is_released() {
    let scene = Scene::new(3);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let redlock = first.block_on(scene.proxied(patient()));
    let [a, b] = ["x", "y"].map(|name| first.block_on(async { redlock.lock(name).await.unwrap() }));
    drop(first);
    drop(a);
    std::thread::spawn(move || drop(b)).join().unwrap();

    runtime().block_on(is_free(&scene, &redlock));
}

#[tokio::test]
async fn dropped_acquires_answer_is_not_reused() {
    let scene = Scene::new(3);
    let redlock = scene.proxied(patient()).await;
    let other = scene.direct(patient().owner("other")).await;
    scene.proxies.iter().for_each(|proxy| proxy.set_delay(Duration::from_millis(100)));

    let mut dropped = redlock.lock("x").into_future();

    assert!(poll_once(&mut dropped).is_pending());

    scene.keys_everywhere().await;
    drop(dropped);
    // The name becomes free and is taken by another before the late grants arrive.
    scene.all_keys_gone().await;
    let lock = other.lock("x").await.unwrap();
    let result = redlock.lock("x").await;

    let Err(LockError::Held { owner, .. }) = result else { panic!("{result:?}") };
    assert_eq!(owner.as_deref(), Some("other"));
    assert!(lock.is_valid());
    assert!(matches!(poll_once(&mut lock.lost()), Poll::Pending));
}

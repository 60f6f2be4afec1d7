//! Thousands of requests of one process wait for names that another one holds.

use std::{future::IntoFuture, time::Duration};

use futures_util::StreamExt;
use tokio::task::JoinSet;
use tower_redlock::{Lock, Redlock};

use super::scene::{LONG, Scene};
use crate::support::{HANG_GUARD, eventually_async};

const WAITERS: usize = 2_000;
/// Long enough that connections to a silent server are replaced.
const PAUSE: Duration = Duration::from_secs(1);

fn name(waiter: usize) -> String {
    format!("crowd:{waiter}")
}

/// Acquires every name, some at a time.
async fn hold_all(redlock: &Redlock) -> Vec<Lock> {
    let requests = (0..WAITERS).map(|i| redlock.lock(name(i)).wait(HANG_GUARD).into_future());
    let held = futures_util::stream::iter(requests).buffer_unordered(64);
    held.map(Result::unwrap).collect().await
}

fn wait_for_all(redlock: &Redlock) -> JoinSet<()> {
    let mut waiting = JoinSet::new();
    for i in 0..WAITERS {
        let request = redlock.lock(name(i)).wait(2 * LONG);
        waiting.spawn(async move { drop(request.await.unwrap()) });
    }
    waiting
}

/// Waits until the servers know of every waiter.
async fn all_listen(scene: &Scene) {
    let channels = WAITERS.to_string();
    eventually_async("every waiter listens on every server", async || {
        scene
            .servers
            .iter()
            .all(|server| server.info("stats", "pubsub_channels").as_ref() == Some(&channels))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_of_the_servers_heals() {
    let scene = Scene::new(3);
    let holder = scene.direct(Redlock::builder().ttl(LONG)).await;
    let crowded = scene.direct(Redlock::builder()).await;
    let held = hold_all(&holder).await;
    let renewed = crowded.lock("renewed").ttl(Duration::from_secs(3)).await.unwrap();
    let mut waiting = wait_for_all(&crowded);
    all_listen(&scene).await;

    let silent = &scene.servers[..2];
    silent.iter().for_each(|server| server.freeze());
    tokio::time::sleep(PAUSE).await;
    silent.iter().for_each(|server| server.thaw());
    drop(held);

    let all = async { while waiting.join_next().await.transpose().unwrap().is_some() {} };
    let in_time = tokio::time::timeout(HANG_GUARD * 2, all).await.is_ok();
    assert!(in_time, "{} of {WAITERS} wait for free names", waiting.len());
    assert!(renewed.is_valid(), "{:?}", renewed.lost().await);
}

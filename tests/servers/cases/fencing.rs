//! Tokens from clients whose clocks disagree.

use std::time::Duration;

use tower_redlock::{
    FencingToken, Redlock,
    time::{Clock, SystemClock},
};

use super::scene::{LONG, Scene, key, patient, poll_once};
use crate::{
    guards::scene::fences_key,
    support::{RedisServer, Resp, hand_clock::HandClock},
};

async fn token(redlock: &Redlock) -> FencingToken {
    let lock = redlock.lock("x").wait(LONG).await.unwrap();
    let token = lock.fencing_token();
    lock.release().await.unwrap();
    token
}

#[track_caller]
fn grows(last: &mut FencingToken, next: FencingToken) {
    assert!(next > *last, "{next} after {last}");
    *last = next;
}

#[tokio::test]
async fn tokens_grow_across_differing_clocks() {
    let scene = Scene::new(5);
    let right = scene.direct(patient()).await;
    let slow = scene.direct(patient().clock(HandClock::skewed(-5_000))).await;
    let fast = scene.direct(patient().clock(HandClock::skewed(5_000))).await;
    let mut last = FencingToken::default();
    for _ in 0..10 {
        for redlock in [&slow, &right, &fast, &right, &slow] {
            grows(&mut last, token(redlock).await);
        }
    }
    // A manager that has seen no fence.
    let fresh = scene.direct(patient().clock(HandClock::skewed(-50_000))).await;
    grows(&mut last, token(&fresh).await);

    grows(&mut last, token(&right).await);
}

#[tokio::test]
async fn tokens_grow_despite_frozen_minorities() {
    let scene = Scene::new(5);
    let slow = scene.direct(patient().clock(HandClock::skewed(-5_000))).await;
    let right = scene.direct(patient()).await;
    let mut last = FencingToken::default();

    for round in 0..10 {
        let frozen = [round % 5, (round + 2) % 5].map(|i| &scene.servers[i]);
        for server in frozen {
            server.freeze();
        }
        for redlock in [&right, &slow] {
            grows(&mut last, token(redlock).await);
        }
        for server in frozen {
            server.thaw();
        }
    }
}

/// Moves the fences of all names on this server an hour ahead.
fn put_fences_ahead(server: &RedisServer) {
    let fence = (SystemClock::new().wall() + Duration::from_secs(3_600)).as_micros().to_string();
    let stripes = (0..1_024).flat_map(|stripe| [fence.clone(), stripe.to_string()]);
    let command = ["ZADD".to_owned(), fences_key(server)].into_iter().chain(stripes);
    assert!(matches!(server.cli(&command.collect::<Vec<_>>()), Resp::Int(_)));
}

/// Returns the token of a lock that the first attempt acquires.
async fn token_at_once(scene: &Scene, redlock: &Redlock) -> FencingToken {
    let lock = redlock.lock("x").await.unwrap_or_else(|error| panic!("no lock: {error}"));
    let token = lock.fencing_token();
    lock.release().await.unwrap();
    // Waits for the release on the slowest server too, as another manager's attempt may come next.
    scene.all_keys_gone().await;
    token
}

#[tokio::test]
async fn fences_hour_ahead_block_no_lock() {
    for ahead in 0..3 {
        let scene = Scene::new(3);
        let (one, two) = (scene.direct(patient()).await, scene.direct(patient()).await);
        let mut last = token_at_once(&scene, &one).await;
        put_fences_ahead(&scene.servers[ahead]);
        for _ in 0..20 {
            grows(&mut last, token_at_once(&scene, &one).await);
        }
        for _ in 0..5 {
            grows(&mut last, token_at_once(&scene, &two).await);
            grows(&mut last, token_at_once(&scene, &one).await);
        }
    }
}

#[tokio::test]
async fn token_passes_fences_hour_ahead() {
    for ahead in 0..3 {
        let scene = Scene::new(3);
        let right = scene.direct(patient()).await;
        let mut last = token_at_once(&scene, &right).await;
        put_fences_ahead(&scene.servers[ahead]);
        for _ in 0..5 {
            // A manager that has seen no fence, and whose clock is behind the others' clocks.
            let slow = scene.direct(patient().clock(HandClock::skewed(-5_000))).await;
            grows(&mut last, token_at_once(&scene, &slow).await);
            grows(&mut last, token_at_once(&scene, &slow).await);
            grows(&mut last, token_at_once(&scene, &right).await);
        }
    }
}

/// A limit: a handover within the process contacts no server, so it does not notice the lease of
/// another process, which can exist after the key was deleted by a third party. The resource
/// refuses the smaller token.
#[tokio::test]
async fn handed_on_token_may_be_overtaken() {
    let scene = Scene::new(3);
    // There is no renewal before the handover, so the deletion is not noticed.
    let settings = || patient().ttl(LONG);
    let (a, b) = (scene.direct(settings()).await, scene.direct(settings()).await);
    // A name that was waited for is acquired with tokens for handovers.
    let first = a.lock("x").await.unwrap();
    let mut second = a.lock("x").wait(LONG).into_future();
    assert!(poll_once(&mut second).is_pending());
    drop(first);
    let lock = second.await.unwrap();
    scene.servers.iter().for_each(|server| assert_eq!(server.cli(&["DEL", &key("x")]).int(), 1));

    let other = b.lock("x").await.unwrap();

    assert!(other.fencing_token() > lock.fencing_token());

    let mut waiting = a.lock("x").wait(LONG).into_future();
    assert!(poll_once(&mut waiting).is_pending());

    drop(lock);
    let handed_on = waiting.await.unwrap();
    assert!(handed_on.fencing_token() < other.fencing_token());

    drop(handed_on);
    // The servers grant a token above both.
    let overtaken_by = other.fencing_token();
    other.release().await.unwrap();
    let next = a.lock("x").wait(LONG).await.unwrap();

    assert!(next.fencing_token() > overtaken_by);
}

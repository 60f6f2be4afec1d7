//! Tokens from clients whose clocks disagree.

use std::time::Duration;

use tower_redlock::{
    FencingToken, Redlock,
    time::{Clock, SystemClock},
};

use crate::fixture::{
    Fixture, LONG, RedisServer, Resp, guard::fences_key, hand_clock::HandClock, key, patient,
    poll_once,
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
async fn tokens_grow_despite_frozen_minorities() {
    let fixture = Fixture::new(5);
    let slow = fixture.direct(patient().clock(HandClock::skewed(-5_000))).await;
    let right = fixture.direct(patient()).await;
    let mut last = FencingToken::default();

    for round in 0..10 {
        let frozen = [round % 5, (round + 2) % 5].map(|i| &fixture.servers[i]);
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
async fn token_at_once(fixture: &Fixture, redlock: &Redlock) -> FencingToken {
    let lock = redlock.lock("x").await.unwrap_or_else(|error| panic!("no lock: {error}"));
    let token = lock.fencing_token();
    lock.release().await.unwrap();
    // Waits for the release on the slowest server too, as another manager's attempt may come next.
    fixture.all_keys_gone().await;
    token
}

#[tokio::test]
async fn fences_hour_ahead_block_no_lock() {
    for ahead in 0..3 {
        let fixture = Fixture::new(3);
        let (one, two) = (fixture.direct(patient()).await, fixture.direct(patient()).await);
        let mut last = token_at_once(&fixture, &one).await;
        put_fences_ahead(&fixture.servers[ahead]);
        for _ in 0..20 {
            grows(&mut last, token_at_once(&fixture, &one).await);
        }
        for _ in 0..5 {
            grows(&mut last, token_at_once(&fixture, &two).await);
            grows(&mut last, token_at_once(&fixture, &one).await);
        }
    }
}

/// A limit: a handover within the process contacts no server, so it does not notice the lease of
/// another process, which can exist after the key was deleted by a third party. The resource
/// refuses the smaller token.
#[tokio::test]
async fn handed_on_token_may_be_overtaken() {
    let fixture = Fixture::new(3);
    // There is no renewal before the handover, so the deletion is not noticed.
    let settings = || patient().ttl(LONG);
    let (a, b) = (fixture.direct(settings()).await, fixture.direct(settings()).await);
    // After a request has waited for a name, the next acquire takes tokens for handovers.
    let first = a.lock("x").await.unwrap();
    let mut second = a.lock("x").wait(LONG).into_future();
    assert!(poll_once(&mut second).is_pending());
    drop(first);
    let lock = second.await.unwrap();
    fixture.servers.iter().for_each(|server| assert_eq!(server.cli(&["DEL", &key("x")]).int(), 1));
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

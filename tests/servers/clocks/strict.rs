//! The strict clock guard.

use std::time::Duration;

use tower_redlock::{
    LockError, RedlockBuilder,
    error::{LossCause, Reason, VoteOutcome},
};

use super::scene::{KEY, LONG, MINUTES, Scene, in_time, patient, vote};
use crate::support::{Feature, HANG_GUARD, Resp, eventually_async, hand_clock::HandClock, has};

/// Wide enough for a busy machine.
const WITHIN: Duration = Duration::from_secs(2);
/// 1 % and 2 ms.
const DRIFT: Duration = Duration::from_millis(602);

fn validity() -> Duration {
    LONG.saturating_sub(DRIFT + 3 * WITHIN)
}

fn strict() -> RedlockBuilder {
    patient().clock_guard(WITHIN)
}

#[tokio::test]
async fn wrong_clock_grants_nothing() {
    if !has(&[Feature::Clock, Feature::ExpiryTime]) {
        return;
    }
    for off in [MINUTES, -MINUTES, 5.0, -5.0] {
        let mut scene = Scene::new();
        scene.servers[0].set_clock_offset(off);
        let redlock = scene.manager(strict()).await;
        let lock = in_time(async { redlock.lock("a").await }).await.unwrap();
        eventually_async("the others have the key", async || scene.keys()[1..] == [true; 2]).await;
        in_time(lock.extend()).await.unwrap();
        in_time(lock.release()).await.unwrap();

        scene.servers[2].kill();
        scene.is_down(&redlock, 2).await;
        assert_eq!(vote(&redlock, 0).await, VoteOutcome::NotCounted(Reason::ClockOff), "{off} s");
        assert!(!scene.servers[0].exists(KEY));
    }
}

#[tokio::test]
async fn wrong_clock_extends_nothing() {
    if !has(&[Feature::Clock, Feature::ExpiryTime]) {
        return;
    }
    let scene = Scene::new();
    let redlock = scene.manager(strict()).await;
    let lock = in_time(async { redlock.lock("a").await }).await.unwrap();
    eventually_async("every server has the key", async || scene.keys() == [true; 3]).await;
    scene.servers[..2].iter().for_each(|server| server.set_clock_offset(MINUTES));
    let Err(
        LockError::NoQuorum { votes }
        | LockError::Lost { cause: LossCause::ClockJumped { votes } | LossCause::Expired { votes } },
    ) = in_time(lock.extend()).await
    else {
        panic!("extended")
    };
    assert!(votes[..2].iter().all(|vote| vote.outcome != VoteOutcome::Granted), "{votes}");
}

#[tokio::test]
async fn undone_jump_costs_no_key() {
    if !has(&[Feature::Clock, Feature::ExpiryTime]) {
        return;
    }
    let mut scene = Scene::new();
    let clock = HandClock::system();
    let first = scene.manager(strict().clock(clock.clone())).await;
    scene.servers[2].kill();
    scene.is_down(&first, 2).await;
    let lock = first.lock("a").await.unwrap();
    scene.servers[2].restart();
    clock.hold();
    scene.blink(0);
    clock.go_on();
    assert_eq!(scene.keys(), [true, true, false]);
    let second = scene.manager(strict()).await;
    let other = in_time(async { second.lock("a").await }).await;
    assert!(matches!(other, Err(LockError::Held { .. })), "{other:?}");
    assert!(lock.is_valid());
    eventually_async("the third votes again", async || first.health()[2].is_voting()).await;
    in_time(lock.extend()).await.unwrap();
}

/// The client's own clock is checked too: it was suspended, or put forward.
#[tokio::test]
async fn wall_jump_ends_unpolled_validity() {
    if !has(&[Feature::Clock, Feature::ExpiryTime]) {
        return;
    }
    let scene = Scene::new();
    let clock = HandClock::system();
    // No timer of a lock is due before a third of its TTL, or the node timeout of its grant.
    let builder = strict().ttl(LONG * 4).node_timeout(LONG / 3);
    let redlock = scene.manager(builder.clock(clock.clone())).await;
    let lock = in_time(async { redlock.lock("a").await }).await.unwrap();
    // No answer arrives that would reveal it.
    eventually_async("every answer has arrived", async || {
        redlock.health().iter().all(|node| node.in_flight == 0)
    })
    .await;
    let lost = lock.lost();
    clock.set_wall_ahead(LONG * 4);
    assert!(!lock.is_valid(), "is_valid() reports it at once");
    let cause = in_time(lost).await;
    assert!(matches!(cause, LossCause::Expired { .. }), "{cause}");
}

#[tokio::test]
async fn wall_jump_drops_guarded_work() {
    if !has(&[Feature::Clock, Feature::ExpiryTime]) {
        return;
    }
    let scene = Scene::new();
    let clock = HandClock::system();
    let redlock = scene.manager(strict().clock(clock.clone())).await;
    let work = redlock.lock("a").run(|_| {
        clock.set_wall_ahead(LONG);
        std::future::pending::<()>()
    });
    let error = in_time(work).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { cause: LossCause::Expired { .. } }), "{error}");
}

#[tokio::test]
async fn small_wall_jump_shortens_validity() {
    if !has(&[Feature::Clock, Feature::ExpiryTime]) {
        return;
    }
    let scene = Scene::new();
    let clock = HandClock::system();
    let redlock = scene.manager(strict().clock(clock.clone())).await;
    let lock = in_time(async { redlock.lock("a").await }).await.unwrap();
    clock.set_wall_ahead(LONG / 2);
    assert!(lock.is_valid());
    // The servers' clocks are off now, compared with the client's.
    assert!(in_time(lock.extend()).await.is_err());
    clock.set_wall_ahead(Duration::ZERO);
    in_time(lock.extend()).await.unwrap();
    clock.set_wall_ahead(validity());
    assert!(!lock.is_valid());
}

#[tokio::test]
async fn validity_subtracts_three_clock_margins() {
    if !has(&[Feature::Clock, Feature::ExpiryTime]) {
        return;
    }
    let scene = Scene::new();
    let redlock = scene.manager(strict()).await;
    let lock = in_time(async { redlock.lock("a").await }).await.unwrap();
    let most = validity();
    let left = lock.remaining();
    assert!(left <= most && left > most.saturating_sub(HANG_GUARD), "{left:?}");
    let left = in_time(lock.extend()).await.unwrap();
    assert!(left <= most && left > most.saturating_sub(HANG_GUARD), "{left:?}");
}

#[tokio::test]
async fn reported_lease_excludes_the_backstop() {
    if !has(&[Feature::Clock, Feature::ExpiryTime]) {
        return;
    }
    let scene = Scene::new();
    let redlock = scene.manager(strict().owner("holder")).await;
    let other = scene.manager(strict()).await;
    let _lock = in_time(async { redlock.lock("a").await }).await.unwrap();
    eventually_async("every server has the key", async || scene.keys() == [true; 3]).await;
    for server in &scene.servers {
        let day = 24 * 3600 * 1000;
        assert!(
            (day..=day + 60_000).contains(&server.pttl(KEY)),
            "the key itself has a longer TTL"
        );
    }
    let error = in_time(async { other.lock("a").await }).await.unwrap_err();
    let LockError::Held { expires_in: Some(after), owner, .. } = error else { panic!("{error}") };
    assert_eq!(owner.as_deref(), Some("holder"));
    assert!(after <= LONG && after > LONG / 2, "{after:?}");
    let holder = in_time(async { other.inspect("a").await }).await.unwrap().expect("it is held");
    let left = holder.remaining.expect("it ends");
    assert!(left <= LONG && left > LONG / 2, "{left:?}");
    assert!(holder.is_quorum);
    for vote in holder.votes.iter() {
        let VoteOutcome::Held { remaining: Some(left), .. } = vote.outcome else {
            panic!("{vote}")
        };
        assert!(left <= LONG && left > LONG / 2, "{left:?}");
    }
}

#[tokio::test]
async fn lock_is_extended_on_full_servers() {
    if !has(&[Feature::Clock, Feature::ExpiryTime]) {
        return;
    }
    let scene = Scene::new();
    let redlock = scene.manager(strict()).await;
    let lock = in_time(async { redlock.lock(["a", "b"]).await }).await.unwrap();
    eventually_async("every server has the key", async || scene.keys() == [true; 3]).await;
    for server in &scene.servers {
        server.cli(&["PEXPIRE", KEY, "10000"]);
        server.set_config("maxmemory", "1");
        assert!(matches!(server.cli(&["SET", "x", "1"]), Resp::Error(_)));
    }
    in_time(lock.extend()).await.unwrap();
    eventually_async("every server prolonged it", async || {
        scene.servers.iter().all(|server| server.pttl(KEY) > 24 * 3600 * 1000)
    })
    .await;
    in_time(lock.release()).await.unwrap();
}

#[tokio::test]
async fn max_ttl_counts_without_the_backstop() {
    if !has(&[Feature::Clock, Feature::ExpiryTime]) {
        return;
    }
    let scene = Scene::new();
    let redlock = scene.manager(strict().max_ttl(2 * LONG)).await;
    let lock = in_time(async { redlock.lock("a").ttl(2 * LONG).await }).await.unwrap();
    assert!(lock.remaining() > LONG);
    let error = in_time(async { redlock.lock("b").ttl(3 * LONG).await }).await.unwrap_err();
    assert!(matches!(error, LockError::InvalidRequest(_)), "{error}");
}

//! Wall clocks that are off by more than fencing tokens may be ahead, and pauses of the local clock.

use std::time::Duration;

use tower_redlock::{
    LockError, Redlock,
    error::{LossCause, Reason, VoteOutcome},
    node::{Finding, NodeHealth},
    time::{Clock, SystemClock},
};

use crate::fixture::{
    clock::{Fixture, MINUTES, is_jump, jump_is_seen, refusal},
    eventually_async,
    hand_clock::HandClock,
    in_time, patient,
};

const HOURS: Duration = Duration::from_secs(2 * 3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);
const OWN: &str = "this process's wall clock differs";
const SERVERS: &str = "the server's wall clock differs";

/// A lock that the first attempt acquires.
async fn token(redlock: &Redlock) -> u64 {
    let lock = in_time(async { redlock.lock("a").await }).await;
    let lock = lock.unwrap_or_else(|error| panic!("no lock: {error}"));
    let token = lock.fencing_token().get();
    in_time(lock.release()).await.unwrap();
    token
}

/// Whether a token was derived from a correct clock.
fn is_of_now(token: u64) -> bool {
    u128::from(token).abs_diff(SystemClock::new().wall().as_micros()) < 30_000_000
}

fn findings(redlock: &Redlock) -> Vec<Vec<Finding>> {
    redlock.health().into_iter().map(|node| node.findings).collect()
}

fn own_is_off(redlock: &Redlock, by: i64) -> bool {
    findings(redlock).iter().all(|findings| match findings[..] {
        [Finding::OwnClock { ahead_micros }] => ahead_micros.abs_diff(by) < 30_000_000,
        _ => false,
    })
}

mod of_the_client {
    use super::*;

    #[tokio::test]
    async fn wrong_wall_clock_is_only_reported() {
        let day = i64::try_from(DAY.as_micros()).unwrap();

        for by in [day, -day] {
            let Some(fixture) = Fixture::new() else { return };
            let clock = HandClock::system();
            let redlock = fixture.manager(patient().clock(clock.clone())).await;
            let mut last = token(&redlock).await;
            assert!(is_of_now(last));
            if by < 0 {
                clock.set_wall_behind(DAY);
            } else {
                clock.set_wall_ahead(DAY);
            }
            for _ in 0..5 {
                let next = token(&redlock).await;
                assert!(next > last && is_of_now(next), "{next} after {last}");
                last = next;
            }
            eventually_async("the offset is detected", async || own_is_off(&redlock, by)).await;
            let way = if by < 0 { "back" } else { "forward" };
            fixture.log.wait_for("WARN", &[OWN, way]).await;
            // The value is unchanged after the next health checks.
            let looked = clock.now();
            let again = Duration::from_millis(2_500);
            eventually_async("further health checks", async || {
                clock.now().saturating_duration_since(looked) > again
            })
            .await;
            assert!(own_is_off(&redlock, by));
            clock.set_wall_ahead(Duration::ZERO);
            assert!(token(&redlock).await > last);
            eventually_async("the clock is correct", async || {
                findings(&redlock).iter().all(Vec::is_empty)
            })
            .await;
            fixture.log.wait_for("INFO", &["wall clock is correct again"]).await;
            assert_eq!(fixture.log.text().matches(OWN).count(), 1, "{}", fixture.log.text());
        }
    }

    #[tokio::test]
    async fn is_known_before_the_first_lock() {
        let Some(fixture) = Fixture::new() else { return };

        for ahead in [true, false] {
            let clock = HandClock::system();
            if ahead {
                clock.set_wall_ahead(HOURS);
            } else {
                clock.set_wall_behind(HOURS);
            }
            let redlock = fixture.manager(patient().clock(clock)).await;
            assert!(is_of_now(token(&redlock).await));
        }
    }
}

mod of_a_server {
    use super::*;

    #[tokio::test]
    async fn error_costs_one_vote_at_most() {
        let hours = HOURS.as_secs_f64();

        for by in [hours, -hours] {
            let Some(fixture) = Fixture::new() else { return };
            fixture.servers[1].set_clock_offset(by);
            let redlock = fixture.manager(patient()).await;
            for _ in 0..5 {
                assert!(is_of_now(token(&redlock).await));
            }
            eventually_async("the offset is detected", async || match &findings(&redlock)[..] {
                [one, off, three] => {
                    one.is_empty()
                        && three.is_empty()
                        && matches!(off[..], [Finding::ServerClock { ahead_micros }]
                                if (ahead_micros < 0) == (by < 0.0))
                }
                _ => false,
            })
            .await;
            fixture.log.wait_for("WARN", &[SERVERS, "node-2"]).await;
            let text = fixture.log.text();
            assert_eq!(
                (text.matches(SERVERS).count(), text.matches(OWN).count()),
                (1, 0),
                "{text}"
            );
            assert!(redlock.health()[1].to_string().contains("the clocks of a quorum of servers"));
        }
    }

    #[tokio::test]
    async fn error_is_named_without_quorum() {
        let Some(mut fixture) = Fixture::new() else { return };
        for server in &fixture.servers[..2] {
            server.set_clock_offset(HOURS.as_secs_f64());
        }
        let redlock = fixture.manager(patient()).await;
        assert!(!is_of_now(token(&redlock).await), "two of three clocks are ahead");
        fixture.servers[0].kill();
        fixture.is_down(&redlock, 0).await;
        let error = in_time(async { redlock.lock("a").await }).await.unwrap_err();
        let LockError::NoQuorum { votes } = &error else { panic!("{error}") };
        let behind = VoteOutcome::NotCounted(Reason::TokenAhead);
        assert_eq!(votes[2].outcome, behind, "{votes}");
        assert!(error.to_string().contains("either that clock is behind"), "{error}");
    }
}

#[tokio::test]
async fn local_pause_advances_deadlines() {
    let ttl = Duration::from_secs(5);
    let Some(fixture) = Fixture::new() else { return };
    let clock = HandClock::system();
    let redlock = fixture.manager(Redlock::builder().ttl(ttl).clock(clock.clone())).await;
    let began = clock.now();
    let lock = redlock.lock("a").auto_extend(false).await.unwrap();
    let validity = lock.remaining();
    fixture.keys_everywhere().await;
    clock.hold();
    eventually_async("the keys have expired", async || fixture.keys() == [false; 3]).await;
    assert!(lock.is_valid(), "the local clock has not moved");
    clock.go_on();
    let cause = in_time(lock.lost()).await;
    assert!(matches!(cause, LossCause::Expired { .. }), "{cause}");
    assert!(!lock.is_valid());
    assert!(
        clock.now().saturating_duration_since(began) < validity,
        "the local clock alone does not show the pause"
    );
    fixture.log.wait_for("WARN", &["local clock paused"]).await;
    assert_eq!(fixture.log.text().matches("local clock paused").count(), 1);
    eventually_async("every node votes", async || {
        redlock.health().iter().all(NodeHealth::is_voting)
    })
    .await;
    // The value is unchanged after the next health checks.
    let (looked, again) = (clock.now(), Duration::from_secs(2));
    eventually_async("every node is checked", async || {
        clock.now().saturating_duration_since(looked) > again
    })
    .await;
    assert!(redlock.health().iter().all(NodeHealth::is_voting), "{:?}", redlock.health());
    assert!(clock.now().saturating_duration_since(looked) < ttl, "a bar would have expired");
    assert_eq!(fixture.log.text().matches("local clock paused").count(), 1);
    // Later deadlines use the corrected clock.
    let lock = redlock.lock("a").await.unwrap();
    assert!(lock.is_valid() && lock.remaining() > ttl / 2 && lock.remaining() < ttl);
    lock.release().await.unwrap();
}

#[tokio::test]
async fn valid_lock_is_valid_for_less() {
    let ttl = Duration::from_secs(60);
    let Some(fixture) = Fixture::new() else { return };
    let clock = HandClock::system();
    let redlock = fixture.manager(Redlock::builder().ttl(ttl).clock(clock.clone())).await;
    let lock = redlock.lock("a").await.unwrap();
    fixture.keys_everywhere().await;
    clock.hold();
    // More than clocks drift apart in 60 s.
    let enough = Duration::from_secs(57).as_millis();
    eventually_async("time passes", async || {
        u128::try_from(fixture.servers[0].pttl(crate::fixture::clock::KEY)).unwrap() < enough
    })
    .await;
    clock.go_on();
    fixture.log.wait_for("WARN", &["local clock paused"]).await;
    assert!(lock.is_valid());
    assert!(lock.remaining().as_millis() < enough, "{:?}", lock.remaining());
    in_time(lock.extend()).await.unwrap();
    assert!(lock.remaining().as_millis() > enough, "{:?}", lock.remaining());
}

#[tokio::test]
async fn jumped_server_stays_barred() {
    let ttl = Duration::from_secs(60);
    let Some(fixture) = Fixture::new() else { return };
    let clock = HandClock::system();
    let redlock = fixture.manager(Redlock::builder().ttl(ttl).clock(clock.clone())).await;
    fixture.servers[2].set_clock_offset(MINUTES);
    jump_is_seen(&redlock, 2).await;
    let lock = redlock.lock("a").await.unwrap();
    eventually_async("two servers have the key", async || fixture.keys()[..2] == [true; 2]).await;
    clock.hold();
    eventually_async("time passes", async || {
        fixture.servers[0].pttl(crate::fixture::clock::KEY) < 57_000
    })
    .await;
    clock.go_on();
    fixture.log.wait_for("WARN", &["local clock paused"]).await;
    eventually_async("the other two nodes vote", async || {
        redlock.health()[..2].iter().all(NodeHealth::is_voting)
    })
    .await;
    assert!(refusal(&redlock, 2).as_ref().is_some_and(is_jump), "{:?}", redlock.health()[2]);
    drop(lock);
    let _lock = in_time(async { redlock.lock("b").await }).await.unwrap();
    assert!(!fixture.servers[2].exists("redlock:lock:b"));
}

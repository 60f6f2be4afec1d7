//! Wall clocks that are off by more than fencing tokens may be ahead.

use std::time::Duration;

use tower_redlock::{
    LockError, Redlock,
    error::{Reason, VoteOutcome},
    node::Finding,
    time::{Clock, SystemClock},
};

use super::scene::{Scene, in_time, patient};
use crate::support::{Feature, eventually_async, hand_clock::HandClock, has};

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
        if !has(&[Feature::Clock]) {
            return;
        }
        let day = i64::try_from(DAY.as_micros()).unwrap();

        for by in [day, -day] {
            let scene = Scene::new();
            let clock = HandClock::system();
            let redlock = scene.manager(patient().clock(clock.clone())).await;
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
            scene.log.wait_for("WARN", &[OWN, way]).await;
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
            scene.log.wait_for("INFO", &["wall clock is correct again"]).await;
            assert_eq!(scene.log.text().matches(OWN).count(), 1, "{}", scene.log.text());
        }
    }

    #[tokio::test]
    async fn is_known_before_the_first_lock() {
        if !has(&[Feature::Clock]) {
            return;
        }
        let scene = Scene::new();

        for ahead in [true, false] {
            let clock = HandClock::system();
            if ahead {
                clock.set_wall_ahead(HOURS);
            } else {
                clock.set_wall_behind(HOURS);
            }
            let redlock = scene.manager(patient().clock(clock)).await;
            assert!(is_of_now(token(&redlock).await));
        }
    }
}

mod of_a_server {
    use super::*;

    #[tokio::test]
    async fn error_costs_one_vote_at_most() {
        if !has(&[Feature::Clock]) {
            return;
        }
        let hours = HOURS.as_secs_f64();

        for by in [hours, -hours] {
            let scene = Scene::new();
            scene.servers[1].set_clock_offset(by);
            let redlock = scene.manager(patient()).await;
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
            scene.log.wait_for("WARN", &[SERVERS, "node-2"]).await;
            let text = scene.log.text();
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
        if !has(&[Feature::Clock]) {
            return;
        }
        let mut scene = Scene::new();
        for server in &scene.servers[..2] {
            server.set_clock_offset(HOURS.as_secs_f64());
        }

        let redlock = scene.manager(patient()).await;

        assert!(!is_of_now(token(&redlock).await), "two of three clocks are ahead");

        scene.servers[0].kill();
        scene.is_down(&redlock, 0).await;
        let error = in_time(async { redlock.lock("a").await }).await.unwrap_err();
        let LockError::NoQuorum { votes } = &error else { panic!("{error}") };

        let behind = VoteOutcome::NotCounted(Reason::TokenAhead);
        assert_eq!(votes[2].outcome, behind, "{votes}");
        assert!(error.to_string().contains("either that clock is behind"), "{error}");
    }
}

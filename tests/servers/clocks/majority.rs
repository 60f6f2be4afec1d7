//! A majority of servers whose clocks jump alike, as one time source may make them.

use std::time::Duration;

use tower_redlock::LossCause;

use super::{
    own_clock::OwnClock,
    scene::{KEY, LONG, Scene, in_time, is_jump, patient, refusal},
};
use crate::support::{eventually_async, over};

const HOUR: f64 = 3_600.0;
const OWN: &str = "our own clock stood still";

#[tokio::test]
async fn is_found_out_by_the_third() {
    let scene = Scene::new();
    let (first, second) = (scene.manager(patient()).await, scene.manager(patient()).await);
    let lock = first.lock("a").auto_extend(false).await.unwrap();
    eventually_async("every server has the key", async || scene.keys() == [true; 3]).await;
    scene.servers[0].set_clock_offset(HOUR);
    scene.servers[1].set_clock_offset(HOUR);
    eventually_async("the first knows", async || {
        let other = in_time(async { second.lock("a").await }).await;
        assert!(!(other.is_ok() && lock.is_valid()), "two have it:\n{}", scene.log.text());
        !lock.is_valid()
    })
    .await;
    let cause = in_time(lock.lost()).await;
    assert!(matches!(cause, LossCause::ClockJumped { .. }), "{cause}");
    for redlock in [&first, &second] {
        eventually_async("both are barred", async || {
            (0..2).all(|node| refusal(redlock, node).as_ref().is_some_and(is_jump))
        })
        .await;
        assert!(redlock.health()[2].is_voting());
    }
    assert!(second.lock("a").await.is_err(), "too early for the second to know");
    assert!(!scene.log.text().contains(OWN), "{}", scene.log.text());
}

/// The limit: nobody is left who could tell.
#[tokio::test]
async fn is_taken_for_a_pause_without_the_third() {
    let mut scene = Scene::new();
    let redlock = scene.manager(patient()).await;
    scene.servers[2].kill();
    scene.is_down(&redlock, 2).await;
    scene.servers[0].set_clock_offset(HOUR);
    scene.servers[1].set_clock_offset(HOUR);
    scene.log.wait_for("WARN", &[OWN]).await;
}

/// The third hangs: the verdict waits for it, and no longer than its connection.
#[tokio::test]
async fn waits_for_a_third_that_hangs() {
    let scene = Scene::new();
    let clock = OwnClock::default();
    let way = crate::support::Proxy::start(scene.servers[2].addr());
    let urls = vec![scene.servers[0].url(), scene.servers[1].url(), way.url()];
    let spawner = crate::facts::log::LoggedSpawner::start(&scene.log);
    let builder = patient().node_timeout(Duration::from_millis(100)).clock(clock.clone());
    let redlock = over(builder, urls).spawner(spawner).build().unwrap();
    eventually_async("every node votes", async || {
        redlock.health().iter().all(tower_redlock::NodeHealth::is_voting)
    })
    .await;
    let lock =
        in_time(async { redlock.lock("a").wait(LONG).auto_extend(false).await }).await.unwrap();
    eventually_async("every server has the key", async || scene.keys() == [true; 3]).await;
    let left = lock.remaining();
    way.stall();
    clock.hold();
    eventually_async("time passes", async || {
        scene.servers[0].pttl(KEY) < 57_000 && scene.servers[1].pttl(KEY) < 57_000
    })
    .await;
    clock.go_on();
    scene.log.wait_for("WARN", &[OWN]).await;
    assert!(lock.is_valid() && lock.remaining() + Duration::from_secs(2) < left);
    way.resume();
    eventually_async("every node votes", async || {
        redlock.health().iter().all(tower_redlock::NodeHealth::is_voting)
    })
    .await;
}

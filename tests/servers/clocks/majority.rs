//! A majority of servers whose clocks jump alike, as one time source may make them.

use crate::support::{Feature, has};
use std::time::Duration;

use tower_redlock::{error::LossCause, node::NodeHealth};

use super::scene::{Scene, in_time, is_jump, patient, refusal};
use crate::{
    failures::log::LoggedSpawner,
    support::{Proxy, eventually_async, over},
};

const HOUR: f64 = 3_600.0;
const OWN: &str = "local clock paused";

#[tokio::test]
async fn is_found_out_by_the_third() {
    if !has(&[Feature::Clock]) {
        return;
    }
    let scene = Scene::new();
    let (first, second) = (scene.manager(patient()).await, scene.manager(patient()).await);
    let lock = first.lock("a").auto_extend(false).await.unwrap();
    eventually_async("every server has the key", async || scene.keys() == [true; 3]).await;
    scene.servers[0].set_clock_offset(HOUR);
    scene.servers[1].set_clock_offset(HOUR);
    eventually_async("the first client detects the jump", async || {
        let other = in_time(async { second.lock("a").await }).await;
        assert!(
            !(other.is_ok() && lock.is_valid()),
            "two clients hold the lock:\n{}",
            scene.log.text()
        );
        !lock.is_valid()
    })
    .await;

    let cause = in_time(lock.lost()).await;

    assert!(matches!(cause, LossCause::ClockJumped { .. }), "{cause}");

    for redlock in [&first, &second] {
        eventually_async("both nodes are barred", async || {
            (0..2).all(|node| refusal(redlock, node).as_ref().is_some_and(is_jump))
        })
        .await;
        assert!(redlock.health()[2].is_voting());
    }

    assert!(second.lock("a").await.is_err(), "the second client cannot have detected the jump");
    assert!(!scene.log.text().contains(OWN), "{}", scene.log.text());
}

/// A limit of the guard: no node with a correct clock is left to compare with.
#[tokio::test]
async fn is_taken_for_pause_without_third() {
    if !has(&[Feature::Clock]) {
        return;
    }
    let mut scene = Scene::new();
    let redlock = scene.manager(patient()).await;
    scene.servers[2].kill();
    scene.is_down(&redlock, 2).await;
    scene.servers[0].set_clock_offset(HOUR);
    scene.servers[1].set_clock_offset(HOUR);

    scene.log.wait_for("WARN", &[OWN]).await;
}

/// The same limit: the verdict waits for the third node while it is connected.
#[tokio::test]
async fn waits_for_a_third_that_hangs() {
    if !has(&[Feature::Clock]) {
        return;
    }
    let scene = Scene::new();
    let way = Proxy::start(scene.servers[2].addr());
    let urls = vec![scene.servers[0].url(), scene.servers[1].url(), way.url()];
    let spawner = LoggedSpawner::start(&scene.log);
    let builder = patient().node_timeout(Duration::from_millis(100));
    let redlock = over(builder, urls).spawner(spawner).build().unwrap();
    eventually_async("every node votes", async || {
        redlock.health().iter().all(NodeHealth::is_voting)
    })
    .await;
    way.stall();
    for server in &scene.servers[..2] {
        server.set_clock_offset(3.0);
    }
    scene.log.wait_for("WARN", &[OWN]).await;
    let text = scene.log.text();
    let lines: Vec<_> = text.lines().collect();
    let place = |parts: [&str; 2]| {
        lines.iter().position(|line| parts.iter().all(|part| line.contains(part)))
    };

    let (down, verdict) = (place(["node is down", "node-3"]), place([OWN, ""]));

    assert!(down.is_some() && down < verdict, "{text}");
}

//! The candidate of a scheduler: its options, and a runtime that hangs.

use std::time::Duration;

use tower_redlock::{Job, Leader, Schedule, Scheduler, scheduler::StartError};

use crate::scheduler::scene::{MS, RunningScheduler, SECOND, Scene, Site, TTL};

/// The stall limit of half a minute, detected up to a quarter later.
const FOUND_OUT: Duration = Duration::from_millis(37_500);
/// Time without a reading of the wall clock until the timer task counts as hung.
const LOOK: Duration = Duration::from_secs(16);

fn job(site: &Site) -> Job {
    site.job("j", Schedule::every(10 * SECOND), Duration::ZERO)
}

fn pair(scene: &Scene) -> [(Site, RunningScheduler); 2] {
    ["a", "b"].map(|name| {
        let site = scene.site(name);
        let jobs = site.start_led([job(&site)]);
        scene.clock.settle();
        (site, jobs)
    })
}

#[test]
fn hung_runtime_loses_leadership() {
    let scene = Scene::new();
    let [(a, at_a), (_b, at_b)] = pair(&scene);
    scene.advance(95 * SECOND);
    assert!(at_a.handle.leads());
    a.hang(|_| true);
    scene.advance(FOUND_OUT + TTL + TTL / 10);
    assert!(!at_a.handle.leads() && at_b.handle.leads());
    let ran = scene.log.sites().len();
    scene.advance(100 * SECOND);
    assert_eq!(scene.log.sites()[ran..], ["b"; 10]);
    // The replica is on standby when it resumes.
    a.unhang();
    scene.advance(100 * SECOND);
    assert!(!at_a.handle.leads() && at_b.handle.leads());
    assert_eq!(scene.log.sites()[ran..], ["b"; 20]);
}

/// A task may be stuck behind a blocked worker thread, while the others are polled.
#[test]
fn hung_timer_task_loses_leadership() {
    let scene = Scene::new();
    let [(a, at_a), (_b, at_b)] = pair(&scene);
    scene.advance(95 * SECOND);
    a.hang(|number| number == 0);
    scene.advance(LOOK + FOUND_OUT + TTL + TTL / 10);
    assert!(!at_a.handle.leads() && at_b.handle.leads());
}

#[test]
fn polling_runtime_keeps_leadership() {
    let scene = Scene::new();
    let [(_a, at_a), (_b, _at_b)] = pair(&scene);
    scene.advance(1_000 * SECOND);
    assert!(at_a.handle.leads());
    assert_eq!(scene.log.sites(), ["a"; 100]);
}

#[test]
fn options_are_kept() {
    let scene = Scene::new();
    let sites = ["a", "b"].map(|name| scene.site(name));
    let [at_a, at_b] = sites.each_ref().map(|site| {
        let leader = site.redlock.leader("x").ttl(2 * SECOND).heartbeat_within(4 * SECOND);
        let jobs = site.start_led_by(leader, [job(site)]);
        scene.clock.settle();
        jobs
    });
    scene.advance(5 * SECOND);
    assert!(at_a.handle.leads());
    sites[0].hang(|_| true);
    scene.advance(5 * SECOND + 2_200 * MS);
    assert!(at_b.handle.leads());
    sites[1].crash();
    sites[0].unhang();
    scene.advance(2_200 * MS);
    assert!(at_a.handle.leads());
}

#[test]
fn stopped_candidate_runs_no_jobs() {
    let scene = Scene::new();
    let [a, b] = ["a", "b"].map(|name| scene.site(name));
    let leader = a.redlock.leader("x").resign_grace(Duration::ZERO);
    let at_a = a.start_led_by(leader.clone(), [job(&a)]);
    scene.clock.settle();
    let at_b = b.start_led([job(&b)]);
    scene.advance(15 * SECOND);
    let stopped = scene.clock.spawn(async move { leader.stop().await });
    scene.advance(20 * MS);
    assert!(stopped.is_finished());
    assert!(!at_a.handle.leads() && at_b.handle.leads());
    scene.advance(100 * SECOND);
    assert!(!at_a.handle.leads() && at_a.status("j").next_tick.is_none());
    assert!(scene.log.sites()[1..].iter().all(|site| *site == "b"));
}

#[test]
fn invalid_candidate_is_refused() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    let refused = |leader: Leader| {
        let scheduler = Scheduler::new(a.redlock.clone()).leader_only(leader);
        scheduler.spawner(scene.clock.spawner()).start().unwrap_err()
    };
    let foreign = refused(b.redlock.leader("x"));
    assert_eq!(foreign, StartError::ForeignLeader { name: "x".into() });
    let ttl = refused(a.redlock.leader("x").ttl(Duration::ZERO));
    assert_eq!(ttl.to_string(), r#"the leader "x": the TTL is zero"#);
    let name = refused(a.redlock.leader("x".repeat(600)));
    assert!(matches!(name, StartError::InvalidLeader { .. }), "{name}");
    let unnamed = refused(a.redlock.leader(""));
    assert!(matches!(unnamed, StartError::InvalidLeader { .. }), "{unnamed}");
    scene.advance(TTL);
    assert_eq!(scene.nodes.key_counts(), [0; 5]);
}

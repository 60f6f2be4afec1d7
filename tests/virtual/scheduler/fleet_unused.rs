//! Jobs that nothing uses any more.

use std::{sync::mpsc, time::Duration};

use futures_util::TryStreamExt as _;
use tower_redlock::{
    Redlock, Schedule, Scheduler,
    node::{Answer, ClaimOp, Op, Reply, ScheduleMark, TickClaim, TickRun},
    scheduler::TickOutcome,
    time::Clock as _,
};

use crate::scheduler::{
    fleet_control::done,
    scene::{MS, SECOND, Scene, Site},
};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

fn claimed(scene: &Scene, site: &Site) -> Vec<String> {
    let redlock = site.redlock.clone();
    done(scene, async move {
        let names: Vec<_> = redlock.claimed_jobs().try_collect().await.unwrap();
        names.iter().map(ToString::to_string).collect()
    })
}

fn unused(scene: &Scene, redlock: &Redlock, unused_for: Duration) -> Vec<(String, Duration)> {
    let (redlock, now) = (redlock.clone(), scene.clock.wall());
    done(scene, async move {
        let jobs: Vec<_> = redlock.unused_jobs(unused_for).try_collect().await.unwrap();
        let age = |since: std::time::SystemTime| {
            now.saturating_sub(since.duration_since(std::time::UNIX_EPOCH).unwrap())
        };
        jobs.into_iter().map(|job| (job.name.to_string(), age(job.since))).collect()
    })
}

/// A service that ran two jobs, and is gone.
fn former_service(scene: &Scene) {
    let old = scene.site("old");
    let jobs = [("old", 5), ("rare", 365 * 24 * 60)];
    let job = |(name, minutes): (&str, u32)| old.job(name, Schedule::every(minutes * MINUTE), MS);
    let _jobs = old.start(jobs.map(job));
    scene.advance(11 * MINUTE);
    old.crash();
}

fn start(site: &Site, unused_for: Duration) -> crate::scheduler::scene::RunningScheduler {
    let jobs = [site.job("new", Schedule::every(MINUTE), MS)];
    let scheduler = Scheduler::new(site.redlock.clone()).jobs(jobs);
    site.run(scheduler.forget_unused_after(unused_for))
}

#[test]
fn unused_since_the_tick_not_run() {
    let scene = Scene::new();
    former_service(&scene);
    let site = scene.site("new");

    scene.advance(9 * MINUTE);

    // The tick of minute 15 was not run.
    assert_eq!(unused(&scene, &site.redlock, 5 * MINUTE), [("old".into(), 5 * MINUTE)]);
    assert_eq!(unused(&scene, &site.redlock, 6 * MINUTE), []);
}

/// The jobs that are left after the search of a scheduler with default options, this long after the tick
/// that no replica ran.
fn left_after(time: Duration) -> Vec<String> {
    let scene = Scene::new();
    former_service(&scene);
    scene.advance(time);
    let site = scene.site("new");
    let jobs = [site.job("new", Schedule::every(HOUR), MS)];

    let _jobs = site.run(Scheduler::new(site.redlock.clone()).jobs(jobs));
    // The first look.
    scene.advance(HOUR + MINUTE);

    let mut left = claimed(&scene, &site);
    left.sort_unstable();
    left
}

#[test]
fn scheduler_forgets_after_ninety_days() {
    assert_eq!(left_after(89 * DAY), ["new", "old", "rare"]);
    assert_eq!(left_after(91 * DAY), ["new", "rare"], "a tick of `rare` is still to come");
}

#[test]
fn looks_are_daily() {
    let scene = Scene::new();
    former_service(&scene);
    let site = scene.site("new");
    let _jobs = start(&site, 2 * HOUR);

    // The first search finds it in use.
    scene.advance(HOUR + MINUTE);
    assert!(claimed(&scene, &site).contains(&"old".into()));
    scene.advance(30 * HOUR);

    assert!(!claimed(&scene, &site).contains(&"old".into()));
}

#[test]
fn paused_job_is_in_use() {
    let scene = Scene::new();
    former_service(&scene);
    let site = scene.site("new");
    done(&scene, site.redlock.pause_job("old").by("ann")).unwrap();
    scene.advance(HOUR);

    assert_eq!(unused(&scene, &site.redlock, MINUTE), []);
    done(&scene, site.redlock.resume_job("old")).unwrap();
    assert_eq!(unused(&scene, &site.redlock, MINUTE), [], "its replicas have had no tick yet");
    scene.advance(2 * MINUTE);
    assert_eq!(unused(&scene, &site.redlock, MINUTE).len(), 1);
}

/// A program that runs a tick once, and asks again at each of its starts.
#[test]
fn requested_moment_runs_once() {
    let scene = Scene::new();
    scene.advance(HOUR);
    let site = scene.site("new");
    let moment = Schedule::at(std::time::UNIX_EPOCH + scene.clock.wall().saturating_sub(MINUTE));
    let ask = || {
        let request = site.redlock.job_tick("migrate", moment.clone());
        done(&scene, request.run(|_| async { Ok::<_, &str>(()) })).unwrap()
    };
    assert_eq!(ask(), TickOutcome::Ran(()));
    scene.advance(91 * DAY);

    let _jobs = start(&site, 90 * DAY);
    scene.advance(HOUR + MINUTE);

    assert!(matches!(ask(), TickOutcome::AlreadyDone { .. }));
    assert_eq!(unused(&scene, &site.redlock, 90 * DAY).len(), 1, "for people to decide");
}

#[test]
fn own_jobs_are_not_forgotten() {
    let scene = Scene::new();
    let site = scene.site("a");
    let moment = std::time::UNIX_EPOCH + scene.clock.wall() + MINUTE;
    let jobs = [site.job("once", Schedule::at(moment), MS)];
    let scheduler = Scheduler::new(site.redlock.clone()).jobs(jobs);
    let _jobs = site.run(scheduler.forget_unused_after(10 * MINUTE));

    scene.advance(30 * HOUR);

    assert_eq!(claimed(&scene, &site), ["once"]);
}

#[test]
fn job_in_use_again_stays() {
    let scene = Scene::new();
    former_service(&scene);
    let (site, back) = (scene.site("new"), scene.site("back"));
    scene.advance(HOUR);
    assert_eq!(unused(&scene, &site.redlock, 30 * MINUTE).len(), 1);

    let _jobs = back.start([back.job("old", Schedule::every(5 * MINUTE), MS)]);
    scene.advance(6 * MINUTE);

    let redlock = site.redlock.clone();
    let forgotten =
        done(&scene, async move { redlock.forget_unused_job("old", 30 * MINUTE).await });
    assert_eq!(forgotten, Ok(false));
    assert!(claimed(&scene, &site).contains(&"old".into()));
}

/// Stores claims of jobs on all nodes, which ran this long ago.
fn fill(scene: &Scene, site: &Site, names: impl Iterator<Item = String>, ago: Duration) {
    let at = scene.clock.wall().saturating_sub(ago);
    let direct = site.replica.redlock();
    let (tell, answers) = mpsc::channel();
    for name in names {
        let run = TickRun::new(at, 1, at).ended(at);
        let text = format!("every {} ms, offset 0 ms", HOUR.as_millis());
        let mark = ScheduleMark::new(1, at, "old".into()).described(&text, None);
        let claim = TickClaim::new(1, run, "old".into(), None).by_schedule(mark);
        for node in direct.nodes() {
            let tell = tell.clone();
            let op = ClaimOp::new(name.as_str().into(), claim.clone().into(), MINUTE);
            node.send(Op::Claim(op), Reply::from_fn(move |it| tell.send(it).unwrap()));
            assert_eq!(answers.recv().unwrap(), Ok(Answer::Claimed));
        }
    }
}

#[test]
fn full_servers_make_room() {
    let scene = Scene::new();
    scene.advance(200 * HOUR);
    let site = scene.site("new");
    fill(&scene, &site, (5..Op::MAX_REGISTERS).map(|i| format!("used-{i}")), MINUTE);
    fill(&scene, &site, (0..5).map(|i| format!("old-{i}")), 100 * HOUR);

    let jobs = start(&site, 50 * HOUR);
    scene.advance(SECOND);
    assert!(scene.log.entries().is_empty());
    scene.advance(HOUR + 2 * MINUTE);

    assert!(!scene.log.entries().is_empty(), "{:?}", jobs.status("new"));
    let left = claimed(&scene, &site);
    assert!(left.iter().all(|name| !name.starts_with("old-")));
    assert_eq!(left.len(), Op::MAX_REGISTERS - 5 + 1);
}

//! Jobs that nothing uses any more.

use std::{sync::mpsc, time::Duration};

use futures_util::TryStreamExt as _;
use tower_redlock::{
    Redlock, Schedule, Scheduler,
    node::{Answer, ClaimOp, Op, Reply, ScheduleMark, TickClaim, TickRun},
    scheduler::TickOutcome,
    time::Clock as _,
};

use crate::scheduler::fixture::{DAY, Fixture, HOUR, Host, MINUTE, MS, SECOND};

fn claimed(fixture: &Fixture, host: &Host) -> Vec<String> {
    let redlock = host.redlock.clone();
    fixture.done(async move {
        let names: Vec<_> = redlock.claimed_jobs().try_collect().await.unwrap();
        names.iter().map(ToString::to_string).collect()
    })
}

fn unused(fixture: &Fixture, redlock: &Redlock, unused_for: Duration) -> Vec<(String, Duration)> {
    let (redlock, now) = (redlock.clone(), fixture.clock.wall());
    fixture.done(async move {
        let jobs: Vec<_> = redlock.unused_jobs(unused_for).try_collect().await.unwrap();
        let age = |since: std::time::SystemTime| {
            now.saturating_sub(since.duration_since(std::time::UNIX_EPOCH).unwrap())
        };
        jobs.into_iter().map(|job| (job.name.to_string(), age(job.since))).collect()
    })
}

/// A service that ran two jobs, and is gone.
fn former_service(fixture: &Fixture) {
    let old = fixture.host("old");
    let jobs = [("old", 5), ("rare", 365 * 24 * 60)];
    let job = |(name, minutes): (&str, u32)| old.job(name, Schedule::every(minutes * MINUTE), MS);
    let _jobs = old.start(jobs.map(job));
    fixture.advance(11 * MINUTE);
    old.crash();
}

fn start(host: &Host, unused_for: Duration) -> crate::scheduler::fixture::RunningScheduler {
    let jobs = [host.job("new", Schedule::every(MINUTE), MS)];
    let scheduler = Scheduler::new(host.redlock.clone()).jobs(jobs);
    host.run(scheduler.forget_unused_after(unused_for))
}

#[test]
fn unused_since_the_tick_not_run() {
    let fixture = Fixture::new();
    former_service(&fixture);
    let host = fixture.host("new");

    fixture.advance(9 * MINUTE);

    // The tick of minute 15 was not run.
    assert_eq!(unused(&fixture, &host.redlock, 5 * MINUTE), [("old".into(), 5 * MINUTE)]);
    assert_eq!(unused(&fixture, &host.redlock, 6 * MINUTE), []);
}

/// The jobs that are left after the search of a scheduler with default options, this long after the tick
/// that no replica ran.
fn left_after(time: Duration) -> Vec<String> {
    let fixture = Fixture::new();
    former_service(&fixture);
    fixture.advance(time);
    let host = fixture.host("new");
    let jobs = [host.job("new", Schedule::every(HOUR), MS)];

    let _jobs = host.run(Scheduler::new(host.redlock.clone()).jobs(jobs));
    // The first look.
    fixture.advance(HOUR + MINUTE);

    let mut left = claimed(&fixture, &host);
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
    let fixture = Fixture::new();
    former_service(&fixture);
    let host = fixture.host("new");
    let _jobs = start(&host, 2 * HOUR);
    // The first search finds it in use.
    fixture.advance(HOUR + MINUTE);
    assert!(claimed(&fixture, &host).contains(&"old".into()));
    fixture.advance(30 * HOUR);
    assert!(!claimed(&fixture, &host).contains(&"old".into()));
}

#[test]
fn paused_job_is_in_use() {
    let fixture = Fixture::new();
    former_service(&fixture);
    let host = fixture.host("new");
    fixture.done(host.redlock.pause_job("old").by("ann")).unwrap();
    fixture.advance(HOUR);

    assert_eq!(unused(&fixture, &host.redlock, MINUTE), []);
    fixture.done(host.redlock.resume_job("old")).unwrap();
    assert_eq!(unused(&fixture, &host.redlock, MINUTE), [], "its replicas have had no tick yet");
    fixture.advance(2 * MINUTE);
    assert_eq!(unused(&fixture, &host.redlock, MINUTE).len(), 1);
}

/// A program that runs a tick once, and asks again at each of its starts.
#[test]
fn requested_moment_runs_once() {
    let fixture = Fixture::new();
    fixture.advance(HOUR);
    let host = fixture.host("new");
    let moment = Schedule::at(std::time::UNIX_EPOCH + fixture.clock.wall().saturating_sub(MINUTE));
    let ask = || {
        let request = host.redlock.job_tick("migrate", moment.clone());
        fixture.done(request.run(|_| async { Ok::<_, &str>(()) })).unwrap()
    };
    assert_eq!(ask(), TickOutcome::Ran(()));
    fixture.advance(91 * DAY);
    let _jobs = start(&host, 90 * DAY);
    fixture.advance(HOUR + MINUTE);
    assert!(matches!(ask(), TickOutcome::AlreadyDone { .. }));
    assert_eq!(unused(&fixture, &host.redlock, 90 * DAY).len(), 1, "for people to decide");
}

#[test]
fn own_jobs_are_not_forgotten() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let moment = std::time::UNIX_EPOCH + fixture.clock.wall() + MINUTE;
    let jobs = [host.job("once", Schedule::at(moment), MS)];
    let scheduler = Scheduler::new(host.redlock.clone()).jobs(jobs);
    let _jobs = host.run(scheduler.forget_unused_after(10 * MINUTE));

    fixture.advance(30 * HOUR);

    assert_eq!(claimed(&fixture, &host), ["once"]);
}

#[test]
fn job_in_use_again_stays() {
    let fixture = Fixture::new();
    former_service(&fixture);
    let (host, back) = (fixture.host("new"), fixture.host("back"));
    fixture.advance(HOUR);
    assert_eq!(unused(&fixture, &host.redlock, 30 * MINUTE).len(), 1);
    let _jobs = back.start([back.job("old", Schedule::every(5 * MINUTE), MS)]);
    fixture.advance(6 * MINUTE);
    let redlock = host.redlock.clone();
    let forgotten =
        fixture.done(async move { redlock.forget_unused_job("old", 30 * MINUTE).await });
    assert_eq!(forgotten, Ok(false));
    assert!(claimed(&fixture, &host).contains(&"old".into()));
}

/// Stores claims of jobs on all nodes, which ran this long ago.
fn fill(fixture: &Fixture, host: &Host, names: impl Iterator<Item = String>, ago: Duration) {
    let at = fixture.clock.wall().saturating_sub(ago);
    let direct = host.replica.redlock();
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
    let fixture = Fixture::new();
    fixture.advance(200 * HOUR);
    let host = fixture.host("new");
    fill(&fixture, &host, (5..Op::MAX_REGISTERS).map(|i| format!("used-{i}")), MINUTE);
    fill(&fixture, &host, (0..5).map(|i| format!("old-{i}")), 100 * HOUR);
    let jobs = start(&host, 50 * HOUR);
    fixture.advance(SECOND);
    assert!(fixture.log.entries().is_empty());
    fixture.advance(HOUR + 2 * MINUTE);
    assert!(!fixture.log.entries().is_empty(), "{:?}", jobs.status("new"));
    let left = claimed(&fixture, &host);
    assert!(left.iter().all(|name| !name.starts_with("old-")));
    assert_eq!(left.len(), Op::MAX_REGISTERS - 5 + 1);
}

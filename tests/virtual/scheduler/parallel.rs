//! Jobs whose runs may overlap.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use tower_redlock::{
    Job, JobContext, LockOptions, Schedule, Scheduler,
    node::{ClaimOp, Op},
    scheduler::{
        Claim, ControlError, JobRunResult, JobState, MissReason, Missed, Outcome, Overlap,
        StartError,
    },
};

use crate::scheduler::{
    fixture::{Fixture, Host, MS, RunningScheduler, SECOND, TTL},
    wire::Fate,
};

/// A job whose runs take a time that depends on the tick alone, from 0 to `longest`.
fn varied(host: &Host, period: Duration, longest: Duration) -> Job {
    let (log, name, clock) = (host.log.clone(), host.name, host.clock.clone());
    Job::new("j", Schedule::every(period), move |cx: JobContext| {
        assert!(cx.slot().is_some());
        let ended = log.begin(name, &cx, &clock);
        let share = cx.tick().as_millis() / 1_000 * 2_654_435_761 % 1_000;
        let sleep = clock.sleep(longest * u32::try_from(share).unwrap() / 1_000);
        async move {
            sleep.await;
            ended.finished();
        }
    })
}

fn runs(fleet: &[(Host, RunningScheduler)]) -> usize {
    fleet.iter().map(|(_, jobs)| jobs.status("j").runs().count()).sum()
}

#[test]
fn thousand_ticks_each_start_once_and_overlap() {
    let fixture = Fixture::new();
    let fleet = fixture.fleet(["a", "b"], |host| {
        varied(host, SECOND, 5 * SECOND).parallel(3).missed(Missed::RunAll { at_most: 1_000 })
    });
    let claims = Arc::<Mutex<BTreeMap<u64, u64>>>::default();
    for (host, _) in &fleet {
        let claims = Arc::clone(&claims);
        host.wire.judge(move |_, op| {
            if let Op::Claim(ClaimOp { claim, .. }) = op
                && claim.run.is_open()
                && !claim.run.tick.is_zero()
            {
                let tick = u64::try_from(claim.run.tick.as_millis()).unwrap();
                let former = claims.lock().unwrap().insert(claim.token, tick);
                assert!(former.is_none_or(|former| former == tick), "one tick for a token");
            }
            Fate::Passes
        });
    }
    fixture.advance(1_030 * SECOND);
    let mut ticks = fixture.log.ticks();
    assert!(ticks.is_sorted(), "claims are in the order of the ticks");
    ticks.truncate(1_000);
    assert_eq!(ticks, (1..=1_000).map(|tick| tick * 1_000).collect::<Vec<_>>());
    assert_eq!(fixture.log.most_at_a_time(), 3);
    assert!(["a", "b"].iter().all(|host| fixture.log.hosts().contains(host)));
    let claims = claims.lock().unwrap();
    assert!(claims.values().is_sorted(), "a later token claims a later tick");
    let missed: u64 = fleet.iter().map(|(_, jobs)| jobs.status("j").counts.missed).sum();
    assert_eq!(missed, 0);
}

#[test]
fn cut_off_replicas_start_no_tick_twice() {
    for cut in [0, 2, 4] {
        let fixture = Fixture::new();
        let fleet = fixture.fleet(["a", "b", "c"], |host| {
            varied(host, SECOND, 9 * SECOND).ttl(2 * SECOND).parallel(4)
        });

        for round in 0..30 {
            let (host, _) = &fleet[round % 3];
            // Sometimes a minority, sometimes a majority, in the middle of a tick.
            fixture.advance(SECOND + u32::try_from(37 * round % 900).unwrap() * MS);
            host.replica.partition(cut..(cut + 1 + round % 4).min(5));
            fixture.advance(3_300 * MS);
            host.replica.heal(0..5);
        }

        let mut ticks = fixture.log.ticks();
        let started = ticks.len();
        ticks.sort_unstable();
        ticks.dedup();
        assert_eq!(ticks.len(), started, "a tick is started once");
        assert!(started > 45, "{started}");
        let most = fixture.log.most_at_a_time();
        assert!((3..=4).contains(&most), "{most}");
    }
}

#[test]
fn full_fleet_lets_a_tick_wait() {
    let fixture = Fixture::new();
    let job = |host: &Host| host.job("j", Schedule::every(10 * SECOND), 24 * SECOND).parallel(2);
    let [(_, a), (_, b)] = &mut fixture.fleet(["a", "b"], job);
    fixture.advance(33 * SECOND);
    assert_eq!(fixture.log.ticks(), [10_000, 20_000]);
    fixture.advance(10 * SECOND);
    let entries = fixture.log.entries();
    assert_eq!(fixture.log.ticks(), [10_000, 20_000, 30_000]);
    assert!(entries[2].lateness >= 4 * SECOND && entries[2].lateness < 10 * SECOND);
    let names = [a.event_names(), b.event_names()].concat();
    assert!(!names.contains(&"missed") && !names.contains(&"interrupted"), "{names:?}");
}

#[test]
fn tick_that_waits_for_too_long_is_missed() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = host.job("j", Schedule::every(10 * SECOND), 45 * SECOND).parallel(2);
    let mut jobs = host.start([job.start_within(3 * SECOND)]);

    fixture.advance(34 * SECOND);

    assert_eq!(fixture.log.ticks(), [10_000, 20_000]);
    assert_eq!(jobs.missed(), [(1, 30_000, MissReason::NoSlot)]);
    assert_eq!(jobs.status("j").runs().count(), 2);
}

#[test]
fn different_numbers_never_exceed_the_greater() {
    let fixture = Fixture::new();
    let long = |host: &Host| host.job("j", Schedule::every(SECOND), 20 * SECOND);
    let (a, b) = (fixture.host("a"), fixture.host("b"));
    let at_a = a.start([long(&a).parallel(2)]);
    let at_b = b.start([long(&b).parallel(4)]);

    fixture.advance(60 * SECOND);

    assert_eq!(fixture.log.most_at_a_time(), 4);
    drop((at_a, at_b));
}

#[test]
fn status_and_history_show_every_run() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let jobs = host.start([host.job("j", Schedule::every(10 * SECOND), 25 * SECOND).parallel(3)]);
    fixture.advance(32 * SECOND);
    let status = jobs.status("j");
    assert_eq!(status.state, JobState::Running);
    assert_eq!((status.running.is_some(), status.running_beside.len()), (true, 2));
    let mut slots: Vec<_> = status.runs().map(|run| run.slot.unwrap()).collect();
    slots.sort_unstable();
    assert_eq!(slots, [0, 1, 2]);
    assert!(status.runs().is_sorted_by_key(|run| run.tick));
    assert!(status.next_tick.is_some());
    let redlock = host.redlock.clone();
    let holders = fixture.done(async move { redlock.job_holders("j").await }).unwrap();
    assert_eq!(holders.len(), 3);
    let runs = fixture.history(&jobs, "j");
    assert!(runs.iter().all(|run| run.result == JobRunResult::Open) && runs.len() == 3);
    fixture.advance(4 * SECOND);
    let runs = fixture.history(&jobs, "j");
    assert_eq!(runs[0].result, JobRunResult::Finished);
    assert_eq!(runs[0].ended.unwrap().duration_since(runs[0].started).unwrap().as_secs(), 25);
    assert_eq!(jobs.status("j").runs().count(), 2);
    assert_eq!(jobs.status("j").counts.finished, 1);
}

#[test]
fn end_of_the_latest_tick_is_in_its_claim() {
    let fixture = Fixture::new();
    let [(_, a), (_, b)] = &fixture.fleet(["a", "b"], |host| {
        host.job("j", Schedule::every(100 * SECOND), 30 * SECOND).parallel(2)
    });
    fixture.advance(101 * SECOND);
    let fleet_run = |jobs: &RunningScheduler| jobs.status("j").fleet.unwrap();
    assert!(fleet_run(a).ended.is_none() && fleet_run(b).ended.is_none());
    fixture.advance(98 * SECOND);
    let ended = [fleet_run(a), fleet_run(b)].into_iter().filter_map(|run| run.ended);
    assert!(ended.count() >= 1, "the replica that does not run it reads its end");
}

#[test]
fn stop_stops_all_runs_and_no_later_one() {
    let fixture = Fixture::new();
    let fleet = fixture.fleet(["a", "b"], |host| {
        host.job("j", Schedule::every(10 * SECOND), 300 * SECOND).parallel(4).stop_grace(SECOND)
    });
    fixture.advance(32 * SECOND);
    assert_eq!(runs(&fleet), 3);
    let stop = fleet[0].1.handle.stop("j").by("ann").why("it fills the disk");
    fixture.done(stop).unwrap();
    fixture.advance(7_500 * MS);
    assert_eq!(runs(&fleet), 0);
    fixture.advance(15 * SECOND);
    assert_eq!(runs(&fleet), 2, "they were claimed later");
    let history = fixture.history(&fleet[1].1, "j");
    let stopped = history.iter().filter(|run| run.result == JobRunResult::Stopped);
    assert_eq!(stopped.count(), 3);
    assert!(history[0].error.as_deref().unwrap().contains("it fills the disk"));
}

#[test]
fn stop_of_no_run_is_refused() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let jobs = host.start([host.job("j", Schedule::every(10 * SECOND), SECOND).parallel(4)]);
    fixture.advance(15 * SECOND);

    let stopped = fixture.done(jobs.handle.stop("j"));

    assert!(matches!(stopped, Err(ControlError::NotRunning { .. })), "{stopped:?}");
}

#[test]
fn triggers_and_requests_run_beside_ticks() {
    let fixture = Fixture::new();
    let [(_, a), (_, b)] = &fixture.fleet(["a", "b"], |host| {
        host.job("j", Schedule::every(100 * SECOND), 40 * SECOND).parallel(3)
    });
    fixture.advance(101 * SECOND);

    let mut trigger = fixture.clock.spawn(a.handle.trigger_here("j").unwrap());
    fixture.done(b.handle.trigger("j")).unwrap();
    fixture.advance(8 * SECOND);

    assert_eq!(fixture.log.entries().len(), 3);
    assert_eq!(fixture.log.most_at_a_time(), 3);
    let mut refused = fixture.clock.spawn(a.handle.trigger_here("j").unwrap());
    fixture.advance(SECOND);
    assert!(refused.take().is_none_or(|end| end.is_err()), "no slot is free");
    fixture.advance(40 * SECOND);
    assert_eq!(trigger.take(), Some(Ok(Outcome::Finished)));
    let history = fixture.history(b, "j");
    let triggered: Vec<_> = history.iter().filter(|run| run.trigger.is_some()).collect();
    assert!(triggered.len() >= 2);
    let finished = triggered.iter().filter(|run| run.result == JobRunResult::Finished);
    assert!(finished.count() >= 2);
}

#[test]
fn shutdown_waits_for_every_run() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let jobs = host.start([host.job("j", Schedule::every(10 * SECOND), 25 * SECOND).parallel(3)]);
    fixture.advance(32 * SECOND);
    let mut shutdown = fixture.shutdown(&jobs, 60 * SECOND);
    fixture.advance(10 * SECOND);
    assert!(shutdown.take().is_none(), "two runs have not ended");
    fixture.advance(14 * SECOND);
    let report = shutdown.take().expect("all runs have ended");
    assert_eq!((report.stopped.len(), report.still_running.len()), (0, 0));
    assert!(fixture.log.entries().iter().all(|run| run.finished));
    assert_eq!(fixture.log.ticks(), [10_000, 20_000, 30_000]);
    assert_eq!(fixture.nodes.key_counts(), [0; 5]);
}

#[test]
fn end_of_the_grace_drops_every_run() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let jobs = host.start([host.job("j", Schedule::every(10 * SECOND), 900 * SECOND).parallel(3)]);
    fixture.advance(32 * SECOND);
    let mut shutdown = fixture.shutdown(&jobs, 5 * SECOND);

    fixture.advance(8 * SECOND);

    let report = shutdown.take().expect("the runs were dropped");
    assert_eq!(report.stopped, [Arc::<str>::from("j")]);
    assert!(fixture.log.entries().iter().all(|run| run.ended.is_some() && !run.finished));
    assert_eq!(jobs.status("j").counts.stopped, 3);
    assert_eq!(fixture.nodes.key_counts(), [0; 5]);
}

#[test]
fn removal_and_replacement_wait_for_every_run() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = |takes| host.job("j", Schedule::every(10 * SECOND), takes).parallel(3);
    let jobs = host.start([job(15 * SECOND)]);
    fixture.advance(22 * SECOND);
    jobs.handle.replace(job(SECOND)).unwrap();
    fixture.advance(9 * SECOND);
    assert_eq!(fixture.log.ticks(), [10_000, 20_000], "the old runs have not ended");
    fixture.advance(22 * SECOND);
    assert!(fixture.log.ticks().len() >= 3, "the new one has begun");
    let mut removed = fixture.remove(&jobs, "j");
    fixture.advance(2 * SECOND);
    assert_eq!(removed.take(), Some(Ok(())));
    assert!(jobs.handle.jobs().is_empty());
}

#[test]
fn crash_is_reported_once_and_live_runs_are_not() {
    let fixture = Fixture::new();
    let mut fleet = fixture.fleet(["a", "b", "c"], |host| {
        host.job("j", Schedule::every(10 * SECOND), 95 * SECOND).parallel(8)
    });
    fixture.advance(42 * SECOND);
    assert_eq!(runs(&fleet), 4);
    let crashed = fleet.iter().position(|(_, jobs)| jobs.status("j").running.is_some()).unwrap();
    let lost = fleet[crashed].1.status("j").runs().count();
    fleet[crashed].0.crash();
    fixture.advance(2 * TTL + 10 * SECOND);
    let mut missed = Vec::new();
    for (nth, (_, jobs)) in fleet.iter_mut().enumerate().filter(|(nth, _)| *nth != crashed) {
        assert!(nth != crashed);
        missed.extend(jobs.missed().into_iter().filter_map(|(_, _, why)| match why {
            MissReason::Interrupted { by } => by,
            _ => None,
        }));
    }
    assert_eq!(missed, vec![Arc::from(fleet[crashed].0.name); lost]);
    let (_, other) = &fleet[(crashed + 1) % 3];
    let history = fixture.history(other, "j");
    let interrupted = history.iter().filter(|run| run.result == JobRunResult::Interrupted);
    assert_eq!(interrupted.count(), lost);
    assert!(history.iter().any(|run| run.result == JobRunResult::Open));
}

#[test]
fn unstored_end_is_stored_with_the_next_run() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = host.job("j", Schedule::every(60 * SECOND), 5 * SECOND).parallel(2);
    let mut jobs = host.start([job.max_run(9 * SECOND)]);
    fixture.advance(61 * SECOND);
    host.replica.partition(0..5);
    fixture.advance(30 * SECOND);
    host.replica.heal(0..5);

    fixture.advance(40 * SECOND);

    let history = fixture.history(&jobs, "j");
    assert_eq!(history.len(), 2, "{history:?}");
    assert_ne!(history[0].result, JobRunResult::Interrupted);
    assert!(history[0].ended.is_some(), "{history:?}");
    assert!(!jobs.event_names().contains(&"missed"));
}

#[test]
fn pause_keeps_runs_and_starts_none() {
    let fixture = Fixture::new();
    let fleet = fixture.fleet(["a", "b"], |host| {
        host.job("j", Schedule::every(10 * SECOND), 35 * SECOND).parallel(4)
    });
    fixture.advance(22 * SECOND);

    fixture.done(fleet[0].1.handle.pause("j")).unwrap();
    fixture.advance(60 * SECOND);

    let entries = fixture.log.entries();
    assert_eq!(fixture.log.ticks(), [10_000, 20_000]);
    assert!(entries.iter().all(|run| run.finished));
}

#[test]
fn max_concurrent_runs_bounds_runs_of_parallel_jobs() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = |name| host.job(name, Schedule::every(10 * SECOND), 35 * SECOND).parallel(4);
    let scheduler = Scheduler::new(host.redlock.clone()).jobs([job("j"), job("k")]);
    let _jobs = host.run(scheduler.max_concurrent_runs(3));

    fixture.advance(200 * SECOND);

    assert_eq!(fixture.log.most_at_a_time(), 3);
}

#[test]
fn service_serves_several_runs() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let (log, clock) = (fixture.log.clone(), host.clock.clone());
    let service = tower::service_fn(move |cx: JobContext| {
        let (ended, sleep) = (log.begin("a", &cx, &clock), clock.sleep(25 * SECOND));
        async move {
            sleep.await;
            ended.finished();
            Ok::<_, Infallible>(())
        }
    });
    let job = Job::service("j", Schedule::every(10 * SECOND), service).parallel(3);
    let _jobs = host.start([job]);

    fixture.advance(65 * SECOND);

    assert_eq!(fixture.log.most_at_a_time(), 3);
}

#[test]
fn min_hold_keeps_the_slot() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = host.job("j", Schedule::every(10 * SECOND), SECOND).parallel(2);
    let _jobs = host.start([job.min_hold(15 * SECOND)]);

    fixture.advance(22 * SECOND);

    let redlock = host.redlock.clone();
    let holders = fixture.done(async move { redlock.job_holders("j").await }).unwrap();
    assert_eq!(holders.len(), 2, "the slot of the first run is still held");
}

#[test]
fn invalid_parallel_jobs_are_refused() {
    let (_, [host]) = Fixture::hosts(["a"]);
    let job = || host.job("j", Schedule::every(SECOND), SECOND);
    let refused = |job: Job| {
        let started = Scheduler::new(host.redlock.clone()).job(job).spawner(host.clock.spawner());
        let Err(StartError::InvalidJob { reason, .. }) = started.start() else {
            panic!("it is not refused")
        };
        reason.to_string()
    };
    let blocking = Job::blocking("j", Schedule::every(SECOND), |_| ());
    let after = host.job("j", Schedule::every_after(SECOND), SECOND);

    assert_eq!(refused(job().parallel(0)), "parallel is zero: nothing could run");
    assert_eq!(refused(job().parallel(257)), "parallel is 257, above 256");
    assert!(refused(blocking.parallel(2)).contains("a blocking job"));
    assert!(refused(job().parallel(2).claim(Claim::AtEnd)).contains("Claim::AtEnd"));
    assert!(refused(job().parallel(2).overlap(Overlap::Queue)).contains("overlap"));
    assert!(refused(after.parallel(2)).contains("end of the last run"));
    let slots = refused(job().options(LockOptions::new().slots(2)));
    assert!(slots.contains("parallel is the number of runs"), "{slots}");
    let led = Scheduler::new(host.redlock.clone()).job(job().parallel(2)).leader_only("x");
    let led = led.spawner(host.clock.spawner()).start().unwrap_err().to_string();
    assert!(led.contains("leader_only"), "{led}");
    let led = host.start_led([]);
    assert!(led.handle.add(job().parallel(2)).unwrap_err().to_string().contains("leader_only"));
}

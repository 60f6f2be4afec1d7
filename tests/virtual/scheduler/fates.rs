//! Each tick has one fate, reported once and with its true reason.

use std::time::{Duration, UNIX_EPOCH};

use tower_redlock::{
    Job, Redlock, Schedule,
    node::Op,
    scheduler::{
        Claim, JobEvent, JobEventKind, JobRunResult, MissReason, Missed, NotDone, Overlap,
    },
    time::Clock as _,
};

use crate::scheduler::{
    fixture::{Fixture, HOUR, Host, MINUTE, MS, RunningScheduler, SECOND, TTL, after_start},
    log_lines::{Lines, has},
    wire::Fate,
};

/// The reports of ticks that did not run: name, count, first tick in seconds, reason.
fn reports(jobs: &mut RunningScheduler) -> Vec<(&'static str, u64, u64, String)> {
    let report = |event: &JobEvent| match &event.kind {
        JobEventKind::Missed { count, first, why } => {
            Some(("missed", *count, after_start(*first) / 1_000, format!("{why:?}")))
        }
        JobEventKind::GivenUp { .. } => {
            Some(("given up", 1, after_start(event.tick) / 1_000, String::new()))
        }
        _ => None,
    };
    jobs.new_events().iter().filter_map(report).collect()
}

/// The reports of all replicas.
fn all_reports(fleet: &mut [RunningScheduler]) -> Vec<(&'static str, u64, u64, String)> {
    fleet.iter_mut().flat_map(reports).collect()
}

fn seconds(fixture: &Fixture) -> Vec<u64> {
    fixture.log.ticks().iter().map(|tick| tick / 1_000).collect()
}

fn results(fixture: &Fixture, redlock: &Redlock) -> Vec<JobRunResult> {
    let redlock = redlock.clone();
    let runs = fixture.done(async move { redlock.job_history("j").await }).unwrap();
    runs.iter().map(|run| run.result).collect()
}

/// A replica claims the tick of the second hour on two nodes of five, and crashes.
fn claim_on_two_nodes(fixture: &Fixture, job: impl Fn(&Host) -> Job) {
    let host = fixture.host("a");
    let _jobs = host.start([job(&host)]);
    fixture.advance((2 * HOUR).saturating_sub(SECOND));
    host.wire.apply(Fate::Refused, |node, op| matches!(op, Op::Claim(_) if node >= 2));
    fixture.advance(SECOND + MS);
    host.crash();
    fixture.advance(2 * TTL);
}

/// Soon, after ten minutes with a policy that makes up for it, and after ten minutes without one.
#[test]
fn minority_claim_loses_no_tick() {
    let late = ("missed", 1, 7_200, "Late".to_owned());
    for (wait, missed, ticks, reported) in [
        (Duration::ZERO, Missed::default(), vec![3_600, 7_200], vec![]),
        (10 * MINUTE, Missed::RunLatest, vec![3_600, 7_200], vec![]),
        (10 * MINUTE, Missed::default(), vec![3_600], vec![late]),
    ] {
        let fixture = Fixture::new();
        let job = |host: &Host| host.job("j", Schedule::every(HOUR), SECOND).missed(missed);
        claim_on_two_nodes(&fixture, job);
        fixture.advance(wait);
        let host = fixture.host("b");
        let mut jobs = host.start([job(&host)]);
        fixture.advance(10 * SECOND);
        assert_eq!(seconds(&fixture), ticks, "{missed:?} after {wait:?}");
        assert_eq!(reports(&mut jobs), reported, "{missed:?} after {wait:?}");
    }
}

#[test]
fn missed_tick_never_runs_after_trigger() {
    for overlap in [Overlap::Skip, Overlap::Queue, Overlap::Stop] {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let job = host.job("j", Schedule::every(HOUR), 10 * SECOND).overlap(overlap);
        let mut jobs = host.start([job]);
        fixture.advance(HOUR.saturating_sub(SECOND));
        fixture.nodes.stop(0..5);
        fixture.advance(6 * MINUTE);
        fixture.nodes.start(0..5);
        fixture.advance(MINUTE);
        let missed = reports(&mut jobs);
        assert_eq!(missed.len(), 1, "{missed:?}");
        fixture.advance(48 * MINUTE);
        jobs.handle.trigger_here("j").unwrap();
        fixture.advance(2 * MINUTE);
        assert_eq!(
            fixture.log.entries().len(),
            1,
            "{overlap:?}: the triggered run is the only one"
        );
        assert_eq!(reports(&mut jobs), [], "{overlap:?}");
    }
}

#[test]
fn run_on_demand_does_not_miss_pending_tick() {
    for overlap in [Overlap::Skip, Overlap::Queue, Overlap::Stop] {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let job = host.job("j", Schedule::every(HOUR), 5 * SECOND).overlap(overlap);
        let mut jobs = host.start([job]);
        fixture.advance(HOUR.saturating_sub(SECOND));
        fixture.nodes.stop(0..5);
        fixture.advance(20 * SECOND);
        fixture.nodes.start(0..5);
        jobs.handle.trigger_here("j").unwrap();
        fixture.advance(30 * SECOND);

        let runs = fixture.log.entries();
        assert_eq!(runs.len(), 2, "{overlap:?}: the run on demand, then the tick");
        assert_eq!(after_start(runs[1].tick), 3_600_000, "{overlap:?}");
        assert_eq!(reports(&mut jobs), [], "{overlap:?}");
    }
}

#[test]
fn tick_during_run_on_demand_overlaps() {
    for (overlap, runs) in [(Overlap::Skip, 1), (Overlap::Queue, 2)] {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let job = host.job("j", Schedule::every(HOUR), 100 * SECOND).overlap(overlap);
        let mut jobs = host.start([job]);
        fixture.advance(HOUR.saturating_sub(10 * SECOND));
        jobs.handle.trigger_here("j").unwrap();
        fixture.advance(5 * MINUTE);

        assert_eq!(fixture.log.entries().len(), runs, "{overlap:?}");
        let missed = reports(&mut jobs);
        let expected: &[_] = if runs == 1 { &["Overlap"] } else { &[] };
        assert!(missed.iter().map(|report| &*report.3).eq(expected.iter().copied()), "{missed:?}");
    }
}

#[test]
fn trigger_reports_no_tick_that_is_repeated() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let job = |host: &Host| host.job("j", Schedule::every(HOUR), 30 * SECOND).claim(Claim::AtEnd);
    let _a = a.start([job(&a)]);
    let mut at_b = b.start([job(&b)]);
    at_b.handle.pause_here("j").unwrap();
    fixture.advance(HOUR + SECOND);
    a.crash();
    fixture.advance(2 * TTL);

    at_b.handle.trigger_here("j").unwrap();
    fixture.advance(MINUTE);
    at_b.handle.resume_here("j").unwrap();
    fixture.advance(MINUTE);

    let runs = fixture.log.entries();
    let last = runs.last().unwrap();
    assert_eq!((runs.len(), last.attempt, last.finished), (3, 2, true), "{runs:?}");
    assert_eq!(last.tick, runs[0].tick);
    assert_eq!(reports(&mut at_b), []);
}

#[test]
fn long_run_is_not_given_up_while_it_runs() {
    let (fixture, hosts) = Fixture::hosts(["a", "b", "c"]);
    let job = |host: &Host| {
        let job = host.job("j", Schedule::every(HOUR), 300 * SECOND);
        job.claim(Claim::AtEnd).catch_up(MINUTE)
    };
    let mut fleet = hosts.each_ref().map(|host| host.start([job(host)]));
    fixture.advance((2 * HOUR).saturating_sub(SECOND));

    assert_eq!(fixture.log.entries().len(), 1);
    assert_eq!(all_reports(&mut fleet), []);
}

#[test]
fn fleet_gives_a_tick_up_once() {
    let (fixture, hosts) = Fixture::hosts(["a", "b", "c"]);
    let job = |host: &Host| {
        let job = host.job("j", Schedule::every(HOUR), 100 * SECOND);
        job.claim(Claim::AtEnd).max_attempts(1)
    };
    let mut fleet = hosts.each_ref().map(|host| host.start([job(host)]));
    fixture.advance(HOUR + SECOND);
    let runs = fixture.log.hosts()[0];
    hosts.iter().find(|host| host.name == runs).unwrap().crash();
    fixture.advance(10 * MINUTE);

    assert_eq!(all_reports(&mut fleet), [("given up", 1, 3_600, String::new())]);
}

#[test]
fn fleet_reports_a_missed_tick_once() {
    let (fixture, hosts) = Fixture::hosts(["a", "b", "c"]);
    let mut fleet = hosts
        .each_ref()
        .map(|host| host.start([host.job("j", Schedule::every(HOUR), Duration::ZERO)]));
    fixture.advance(HOUR.saturating_sub(SECOND));
    fixture.nodes.stop(0..5);
    fixture.advance(6 * MINUTE);
    fixture.nodes.start(0..5);
    fixture.advance(10 * MINUTE);

    let missed = all_reports(&mut fleet);
    assert_eq!(missed.len(), 1, "{missed:?}");
    assert_eq!((missed[0].0, missed[0].1, missed[0].2), ("missed", 1, 3_600));
    assert!(missed[0].3.starts_with("Unavailable"), "{missed:?}");
}

#[test]
fn min_hold_is_the_reason() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = host.job("j", Schedule::every(10 * SECOND), MS);
    let mut jobs = host.start([job.min_hold(27 * SECOND).start_within(SECOND)]);
    fixture.advance(45 * SECOND);

    assert_eq!(seconds(&fixture), [10, 40]);
    assert_eq!(reports(&mut jobs), [("missed", 2, 20, "MinHold".to_owned())]);
}

#[test]
fn repetition_is_the_reason() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let (log, clock) = (host.log.clone(), host.clock.clone());
    let mut runs = 0;
    let job = Job::new("j", Schedule::every(60 * SECOND), move |cx| {
        let ended = log.begin("a", &cx, &clock);
        runs += 1;
        let is_first = runs == 1;
        async move {
            if is_first {
                return Err(NotDone::new("more files"));
            }
            ended.finished();
            Ok(())
        }
    });
    let job = job.claim(Claim::AtEnd).backoff(90 * SECOND).start_within(SECOND);
    let mut jobs = host.start([job]);
    fixture.advance(185 * SECOND);

    assert_eq!(seconds(&fixture), [60, 60, 180]);
    assert_eq!(reports(&mut jobs), [("missed", 1, 120, "Repeated".to_owned())]);
}

/// A run is cut off by a crash, and the others report it within two TTLs.
fn after_crash(schedule: impl Fn(&Fixture) -> Schedule, leads: bool) {
    let fixture = Fixture::new();
    let schedule = schedule(&fixture);
    let hosts = ["a", "b", "c"].map(|name| fixture.host(name));
    let mut fleet = hosts.each_ref().map(|host| {
        let job = host.job("j", schedule.clone(), 100 * SECOND);
        let jobs = if leads { host.start_led([job]) } else { host.start([job]) };
        fixture.clock.settle();
        jobs
    });
    fixture.advance(HOUR + 3 * SECOND);
    let runs = fixture.log.hosts()[0];
    hosts.iter().find(|host| host.name == runs).unwrap().crash();

    fixture.advance(2 * TTL);

    let why = format!("{:?}", MissReason::Interrupted { by: Some(runs.into()) });
    assert_eq!(all_reports(&mut fleet), [("missed", 1, 3_600, why)]);
    let rest = hosts.iter().find(|host| host.name != runs).unwrap();
    assert_eq!(results(&fixture, &rest.redlock), [JobRunResult::Interrupted]);
    fixture.advance(3 * HOUR);
    assert_eq!(all_reports(&mut fleet), [], "it is reported once");
}

#[test]
fn cut_off_run_is_reported_within_two_ttls() {
    after_crash(|_| Schedule::every(HOUR), false);
    let single = |fixture: &Fixture| Schedule::at(UNIX_EPOCH + fixture.clock.wall() + HOUR);
    after_crash(single, false);
    after_crash(single, true);
}

#[test]
fn later_process_reports_the_cut_off_run() {
    let fixture = Fixture::new();
    let at = Schedule::at(UNIX_EPOCH + fixture.clock.wall() + HOUR);
    let (a, b) = (fixture.host("a"), fixture.host("b"));
    let _a = a.start([a.job("j", at.clone(), 100 * SECOND)]);
    fixture.advance(HOUR + SECOND);
    a.crash();
    let mut at_b = b.start([b.job("j", at, 100 * SECOND)]);

    fixture.advance(2 * TTL);

    let why = format!("{:?}", MissReason::Interrupted { by: Some("a".into()) });
    assert_eq!(reports(&mut at_b), [("missed", 1, 3_600, why)]);
}

#[test]
fn running_job_is_not_reported_as_cut_off() {
    let (fixture, hosts) = Fixture::hosts(["a", "b"]);
    let mut fleet = hosts
        .each_ref()
        .map(|host| host.start([host.job("j", Schedule::every(HOUR), 1_000 * SECOND)]));
    fixture.advance((2 * HOUR).saturating_sub(SECOND));

    assert_eq!(all_reports(&mut fleet), []);
    assert_eq!(results(&fixture, &hosts[0].redlock), [JobRunResult::Finished]);
}

/// The old version stops a few seconds before a tick of both schedules, the new one starts after it.
fn deployed_across_a_tick(old: Schedule, new: Schedule, missed: Missed, gap: Duration) -> Vec<u64> {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let job = |host: &Host, schedule| host.job("j", schedule, MS).missed(missed);
    let at_a = a.start([job(&a, old)]);
    fixture.advance((4 * HOUR).saturating_sub(5 * SECOND));
    let handle = at_a.handle.clone();
    fixture.done(async move { handle.shutdown(SECOND).await });
    fixture.advance(gap);
    let mut at_b = b.start([job(&b, new)]);
    fixture.advance(20 * SECOND);
    let ran = seconds(&fixture).into_iter().filter(|tick| *tick > 3 * 3_600);
    let told = reports(&mut at_b);
    ran.chain(told.iter().map(|report| report.2 + 1)).collect()
}

#[test]
fn changed_schedule_keeps_the_tick_of_the_change() {
    let hours = |hours| Schedule::every(hours * HOUR);
    let run = |missed, gap| deployed_across_a_tick(hours(1), hours(2), missed, gap);

    assert_eq!(run(Missed::Skip, 15 * SECOND), [4 * 3_600], "it is on time");
    assert_eq!(run(Missed::RunLatest, 5 * MINUTE), [4 * 3_600], "it is made up for");
    assert_eq!(run(Missed::Skip, 5 * MINUTE), [4 * 3_600 + 1], "it is reported");
}

#[test]
fn changed_schedule_makes_up_for_an_outage() {
    let all = Missed::RunAll { at_most: 10 };
    let hours = |hours| Schedule::every(hours * HOUR);

    let ran = deployed_across_a_tick(hours(2), hours(1), all, 3 * HOUR);

    assert_eq!(ran, [4 * 3_600, 5 * 3_600, 6 * 3_600, 7 * 3_600]);
}

#[test]
fn moved_schedule_keeps_the_tick_of_the_change() {
    let at = |minutes: u32| Schedule::every(HOUR).offset(minutes * MINUTE);

    let ran = deployed_across_a_tick(at(5), at(0), Missed::Skip, 15 * SECOND);

    assert_eq!(ran, [3 * 3_600 + 300, 4 * 3_600]);
}

/// The first claim that says that the tick was missed reaches node 0 only. Each of the others after it reaches no node,
/// while node 0 is away. At last, node 0 answers again in place of others: the first claim counts.
fn claim_counts_after(failures: usize) -> Vec<(&'static str, u64, u64, String)> {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let mut jobs = host.start([host.job("j", Schedule::every(HOUR), SECOND)]);
    fixture.advance(HOUR.saturating_sub(SECOND));
    fixture.nodes.stop(0..5);
    fixture.advance(6 * MINUTE);
    let mut sent = 0;
    host.wire.judge(move |node, op| {
        let is_claim = matches!(op, Op::Claim(claim) if &*claim.job == "j");
        sent += usize::from(is_claim);
        // Number of the claim that is sent, or comes next.
        let claim = if is_claim { sent.div_ceil(5) } else { sent / 5 + 1 };
        let reaches = match claim {
            1 => !is_claim || node == 0,
            claim if claim <= failures + 1 => !is_claim && node != 0,
            _ => node < 3,
        };
        if reaches { Fate::Passes } else { Fate::Refused }
    });
    fixture.nodes.start(0..5);
    fixture.advance(30 * MINUTE);
    reports(&mut jobs)
}

#[test]
fn unconfirmed_claim_that_counts_later_is_reported_once() {
    for failures in [0, 1, 2, 7] {
        let reported = claim_counts_after(failures);

        let missed = reported.iter().map(|report| (report.0, report.1, report.2));
        assert!(missed.eq([("missed", 1, 3_600)]), "{failures} later claims: {reported:?}");
    }
}

/// Each claim reaches node 0 only, and is read there: the next one builds on it.
#[test]
fn each_tick_of_unconfirmed_claims_has_one_fate() {
    for minutes in 2..9 {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let job = host.job("j", Schedule::every(MINUTE), Duration::ZERO).start_within(SECOND);
        let mut jobs = host.start([job]);
        fixture.advance(MINUTE.saturating_sub(SECOND));
        let is_lost =
            |node: usize, op: &Op| matches!(op, Op::Claim(claim) if node > 0 && &*claim.job == "j");
        host.wire.apply(Fate::Refused, is_lost);
        fixture.advance(minutes * MINUTE);
        host.wire.calm();
        fixture.advance(3 * MINUTE);

        let reported = reports(&mut jobs);
        let missed =
            reported.iter().flat_map(|report| (0..report.1).map(|nth| report.2 + 60 * nth));
        let mut fates: Vec<_> = missed.chain(seconds(&fixture)).collect();
        fates.sort_unstable();
        let all: Vec<_> = (1..=u64::from(minutes) + 3).map(|minute| 60 * minute).collect();
        assert_eq!(fates, all, "{minutes} minutes: {reported:?}");
    }
}

#[test]
fn findings_of_too_many_unconfirmed_claims_are_dropped_at_warn() {
    Lines::during(|lines| {
        let reported = claim_counts_after(70);

        assert_eq!(reported, [], "the first claim, which counts, is not known any more");
        let warned = lines.take("WARN");
        let dropped = warned.iter().filter(|line| has(line, &["job=j", "are not reported"]));
        assert_eq!(dropped.count(), 1, "{warned:?}");
        for what in ["too few nodes answer", "too few nodes store a claim"] {
            let told = warned.iter().filter(|line| line.contains(what));
            assert_eq!(told.count(), 1, "{what}, once: {warned:?}");
        }
    });
}

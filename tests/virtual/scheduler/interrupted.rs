//! Runs that were interrupted, and runs whose end was not stored.

use std::time::Duration;

use tower_redlock::{
    Schedule,
    node::Op,
    scheduler::{Claim, JobEventKind, MissReason},
};

use crate::scheduler::{
    scene::{MS, RunningScheduler, SECOND, Scene, Site, TTL, event_name},
    site::Fate,
};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn missed(jobs: &RunningScheduler) -> u64 {
    jobs.status("j").counts.missed
}

#[test]
fn fleet_counts_a_crashed_tick_once() {
    let scene = Scene::new();
    let sites = [scene.site("a"), scene.site("b"), scene.site("c")];
    let job = |site: &Site| site.job("j", Schedule::every(HOUR), 100 * SECOND);
    let _a = sites[0].start([job(&sites[0])]);
    scene.advance(HOUR);
    let mut rest = [&sites[1], &sites[2]].map(|site| site.start([job(site)]));
    scene.advance(10 * SECOND);
    sites[0].crash();
    scene.advance(3 * HOUR);
    assert_eq!(scene.log.ticks(), [3_600_000, 7_200_000, 10_800_000, 14_400_000]);
    assert_eq!(rest.iter().map(missed).sum::<u64>(), 1);
    let events: Vec<_> = rest.iter_mut().flat_map(RunningScheduler::new_events).collect();
    let events: Vec<_> =
        events.iter().filter(|event| event_name(&event.kind) == "missed").collect();
    let first = scene.log.entries()[0].tick;
    let why = MissReason::Interrupted { by: Some("a".into()) };
    assert_eq!(events[0].kind, JobEventKind::Missed { count: 1, first, why });
    assert_eq!((events.len(), events[0].tick), (1, first));
}

#[test]
fn trigger_counts_the_crashed_tick_once() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    let job = |site: &Site| site.job("j", Schedule::every(HOUR), 100 * SECOND);
    let (_a, at_b) = (a.start([job(&a)]), b.start([job(&b)]));
    at_b.handle.pause_here("j").unwrap();
    scene.advance(HOUR + SECOND);
    a.crash();
    scene.advance(2 * TTL);
    at_b.handle.trigger_here("j").unwrap();
    scene.advance(SECOND);
    assert_eq!((scene.log.sites(), missed(&at_b)), (vec!["a", "b"], 1));
    at_b.handle.resume_here("j").unwrap();
    scene.advance(HOUR);
    assert_eq!(missed(&at_b), 1);
}

#[test]
fn max_attempts_gives_the_tick_up() {
    let scene = Scene::new();
    let site = scene.site("a");
    let job = site.job("j", Schedule::every(HOUR), 30 * SECOND);
    let mut jobs = site.start([job.claim(Claim::AtEnd).max_attempts(3)]);
    scene.advance(3_599 * SECOND);
    site.wire.judge(|_, op| match op {
        Op::Extend(_) => Fate::Refused,
        _ => Fate::Passes,
    });
    scene.advance(HOUR / 2);
    let attempts: Vec<u32> = scene.log.entries().iter().map(|run| run.attempt).collect();
    assert_eq!(attempts, [1, 2, 3]);
    let events = jobs.new_events();
    let given_up: Vec<_> =
        events.iter().filter(|event| event_name(&event.kind) == "given up").collect();
    assert_eq!(given_up.len(), 1);
    assert_eq!(given_up[0].kind, JobEventKind::GivenUp { attempts: 3 });
    assert_eq!(missed(&jobs), 1);
    assert_eq!(&*jobs.status("j").last_missed.unwrap().why, "given up after 3 attempts");
    site.wire.calm();
    scene.advance(HOUR);
    let runs = scene.log.entries();
    assert_eq!((runs.len(), runs[3].attempt, runs[3].finished), (4, 1, true));
    assert_eq!(missed(&jobs), 1);
}

#[test]
fn crash_during_partition_is_repeated_later() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    let job = |site: &Site| site.job("j", Schedule::every(DAY), 30 * SECOND).claim(Claim::AtEnd);
    let (_a, _b) = (a.start([job(&a)]), b.start([job(&b)]));
    scene.advance(10 * SECOND);
    b.replica.partition(0..5);
    scene.advance(DAY.saturating_sub(9 * SECOND));
    a.crash();
    // The tick is no longer on time.
    scene.advance(HOUR);
    b.replica.heal(0..5);
    scene.advance(6 * SECOND);
    let runs: Vec<_> = scene.log.entries().iter().map(|run| (run.site, run.attempt)).collect();
    assert_eq!(runs, [("a", 1), ("b", 2)]);
}

#[test]
fn unstored_end_is_stored_after_outage() {
    for claim in [Claim::AtStart, Claim::AtEnd] {
        let scene = Scene::new();
        let (a, b) = (scene.site("a"), scene.site("b"));
        let job = |site: &Site| site.job("j", Schedule::every(DAY), SECOND).claim(claim);
        let at_a = a.start([job(&a)]);
        scene.advance(DAY);
        scene.nodes.stop(0..5);
        scene.advance(HOUR);
        assert_eq!(at_a.status("j").counts.finished, 1);
        scene.nodes.start(0..5);
        scene.advance(6 * SECOND);
        // A new replica does not take the run for interrupted.
        let at_b = b.start([job(&b)]);
        scene.advance(DAY);
        let attempts: Vec<u32> = scene.log.entries().iter().map(|run| run.attempt).collect();
        assert_eq!(attempts, [1, 1], "{claim:?}");
        assert_eq!((missed(&at_a), missed(&at_b)), (0, 0), "{claim:?}");
    }
}

/// Two nodes of five store the end of the run; the others keep it as open.
fn end_on_two_nodes(scene: &Scene, a: &Site) -> RunningScheduler {
    let at_a = a.start([a.job("j", Schedule::every(DAY), SECOND).claim(Claim::AtEnd)]);
    scene.advance(DAY);
    a.replica.partition(2..5);
    scene.advance(SECOND);
    assert_eq!(at_a.status("j").counts.finished, 1);
    a.crash();
    at_a
}

#[test]
fn minority_end_prevents_a_repetition() {
    let scene = Scene::new();
    let (a, b, c) = (scene.site("a"), scene.site("b"), scene.site("c"));
    let _a = end_on_two_nodes(&scene, &a);
    // The run counts as running until its lock ends.
    let job = |site: &Site| site.job("j", Schedule::every(DAY), SECOND).claim(Claim::AtEnd);
    b.replica.partition(0..2);
    let _b = b.start([job(&b)]);
    scene.advance(SECOND);
    b.replica.heal(0..2);
    b.replica.partition(3..5);
    scene.advance(2 * TTL);
    b.replica.partition(0..2);
    // A replica without this knowledge finds the same.
    c.replica.partition(0..2);
    b.replica.heal(3..5);
    let _c = c.start([job(&c)]);
    scene.advance(HOUR);
    assert_eq!(scene.log.sites(), ["a"]);
}

#[test]
fn minority_end_is_stored_by_reader() {
    let scene = Scene::new();
    let (a, b, c) = (scene.site("a"), scene.site("b"), scene.site("c"));
    let _a = end_on_two_nodes(&scene, &a);
    let job = |site: &Site| site.job("j", Schedule::every(DAY), SECOND).claim(Claim::AtEnd);
    b.replica.partition(3..5);
    let _b = b.start([job(&b)]);
    scene.advance(2 * TTL);
    c.replica.partition(0..2);
    let _c = c.start([job(&c)]);
    scene.advance(HOUR);
    assert_eq!(scene.log.sites(), ["a"]);
}

#[test]
fn late_end_keeps_a_later_claim() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    let job = |site: &Site| site.job("j", Schedule::every(DAY), SECOND).claim(Claim::AtEnd);
    let at_a = a.start([job(&a)]);
    scene.advance(DAY);
    a.replica.partition(0..5);
    scene.advance(HOUR);
    let at_b = b.start([job(&b)]);
    scene.advance(SECOND / 2);
    // The other replica is repeating it.
    a.replica.heal(0..5);
    scene.advance(6 * SECOND);
    for jobs in [&at_a, &at_b] {
        let fleet = jobs.status("j").fleet.unwrap();
        assert_eq!(fleet.owner.as_deref(), Some("b"));
    }
    let runs: Vec<_> = scene.log.entries().iter().map(|run| (run.site, run.attempt)).collect();
    assert_eq!(runs, [("a", 1), ("b", 2)]);
}

#[test]
fn catch_up_window_gives_run_up() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    let job = |site: &Site| {
        let job = site.job("j", Schedule::every(8 * HOUR), 100 * SECOND);
        job.claim(Claim::AtEnd).catch_up(HOUR)
    };
    let _a = a.start([job(&a)]);
    scene.advance(8 * HOUR + SECOND);
    a.crash();
    scene.advance(3 * HOUR);
    let mut at_b = b.start([job(&b)]);
    scene.advance(HOUR);
    assert_eq!(scene.log.sites(), ["a"]);
    assert_eq!((at_b.event_names(), missed(&at_b)), (vec!["given up"], 1));
    scene.advance(5 * HOUR);
    assert_eq!((scene.log.sites(), missed(&at_b)), (vec!["a", "b"], 1));
}

#[test]
fn refused_end_is_stored_later() {
    for claim in [Claim::AtStart, Claim::AtEnd] {
        let scene = Scene::new();
        let (a, b) = (scene.site("a"), scene.site("b"));
        let job = |site: &Site| site.job("j", Schedule::every(DAY), SECOND).claim(claim);
        let at_a = a.start([job(&a)]);
        scene.advance(DAY);
        scene.nodes.stop(0..5);
        scene.advance(HOUR);
        assert_eq!(at_a.status("j").counts.finished, 1);
        // The nodes answer queries, and refuse claims for half a minute.
        a.wire.judge(|_, op| match op {
            Op::Claim(_) => Fate::Refused,
            _ => Fate::Passes,
        });
        scene.nodes.start(0..5);
        scene.advance(30 * SECOND);
        a.wire.calm();
        scene.advance(HOUR);
        let at_b = b.start([job(&b)]);
        scene.advance(DAY);
        let attempts: Vec<u32> = scene.log.entries().iter().map(|run| run.attempt).collect();
        assert_eq!((attempts, missed(&at_a), missed(&at_b)), (vec![1, 1], 0, 0), "{claim:?}");
    }
}

#[test]
fn seen_end_outlasts_its_nodes() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    let _a = end_on_two_nodes(&scene, &a);
    let job = |site: &Site| site.job("j", Schedule::every(DAY), SECOND).claim(Claim::AtEnd);
    b.replica.partition(3..5);
    let at_b = b.start([job(&b)]);
    scene.advance(100 * MS);
    assert!(at_b.status("j").fleet.unwrap().ended.is_some());
    b.replica.heal(3..5);
    b.replica.partition(0..2);
    scene.advance(HOUR);
    assert_eq!(scene.log.sites(), ["a"]);
}

#[test]
fn end_of_remote_run_is_seen() {
    let scene = Scene::new();
    let sites = [scene.site("a"), scene.site("b")];
    let jobs = sites
        .each_ref()
        .map(|site| site.start([site.job("j", Schedule::every(DAY), 100 * SECOND)]));
    scene.advance(DAY + SECOND);
    let idle = usize::from(scene.log.sites() == ["a"]);
    assert_eq!(jobs[idle].status("j").fleet.unwrap().ended, None);
    scene.advance(300 * SECOND);
    let fleet = jobs[idle].status("j").fleet.unwrap();
    assert!(fleet.ended.is_some() && fleet.owner.as_deref() == Some(scene.log.sites()[0]));
    // No further query follows.
    sites[idle].wire.sent();
    scene.advance(DAY / 2);
    assert_eq!(sites[idle].wire.sent(), 0);
}

#[test]
fn unended_run_is_read_less_often() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    let job = |site: &Site| site.job("j", Schedule::every(DAY), 100 * SECOND);
    let _a = a.start([job(&a)]);
    scene.advance(DAY);
    let _b = b.start([job(&b)]);
    scene.advance(SECOND);
    a.crash();
    scene.advance(TTL);
    b.wire.sent();
    scene.advance(DAY / 2);
    let sent = b.wire.sent();
    // At most one query in ten minutes, to five nodes.
    assert!((5..=5 * 80).contains(&sent), "{sent}");
}

#[test]
fn remote_ticks_are_not_skipped() {
    let scene = Scene::new();
    let sites = [scene.site("a"), scene.site("b"), scene.site("c")];
    let jobs = sites
        .each_ref()
        .map(|site| site.start([site.job("j", Schedule::every(100 * SECOND), 20 * SECOND)]));
    scene.advance(3 * HOUR);
    assert_eq!(scene.log.entries().len(), 108);
    assert_eq!(jobs.map(|jobs| jobs.status("j").counts.skipped), [0; 3]);
}

#[test]
fn partly_withdrawn_claim_burns_no_tick() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    let job = |site: &Site| site.job("j", Schedule::every(100 * SECOND), Duration::ZERO);
    let at_a = a.start([job(&a)]);
    scene.advance(99 * SECOND);
    let nodes = scene.nodes.clone();
    a.wire.judge(move |_, op| {
        if matches!(op, Op::Claim(_)) {
            nodes.freeze(0..5);
        }
        Fate::Passes
    });
    scene.advance(SECOND + 2 * MS);
    at_a.handle.pause_here("j").unwrap();
    a.wire.judge(|node, op| match op {
        Op::Claim(_) if node < 2 => Fate::Refused,
        _ => Fate::Passes,
    });
    scene.nodes.thaw(0..5);
    scene.advance(100 * MS);
    assert_eq!(scene.log.ticks(), [0_u64; 0], "the claim was withdrawn");
    let _b = b.start([job(&b)]);
    scene.advance(SECOND);
    assert_eq!((scene.log.ticks(), scene.log.sites()), (vec![100_000], vec!["b"]));
}

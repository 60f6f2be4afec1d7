//! Log lines, spans, states and the capacity of events.

use std::time::{Duration, UNIX_EPOCH};

use tokio::sync::broadcast::error::TryRecvError;
use tower_redlock::{
    Job, Schedule, Scheduler,
    error::Reason,
    node::Op,
    scheduler::{Claim, JobEventKind, JobState, MissReason},
    time::Clock as _,
};

use crate::scheduler::{
    log_lines::Lines,
    scene::{MS, SECOND, Scene, Site},
};
use crate::support::mock_node::{MockNode, with_nodes};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn has(line: &str, parts: &[&str]) -> bool {
    parts.iter().all(|part| line.contains(part))
}

#[test]
fn outage_costing_a_tick_is_logged() {
    Lines::during(|lines| {
        let scene = Scene::new();
        let site = scene.site("a");
        let jobs = site.start([site.job("daily", Schedule::every(DAY), SECOND)]);
        scene.advance(DAY.saturating_sub(5 * SECOND));
        lines.take("");
        scene.nodes.stop(0..3);
        scene.advance(6 * SECOND);
        let logged = lines.take("WARN");
        assert_eq!(logged.len(), 1, "{logged:?}");
        assert!(has(&logged[0], &["job=daily", "too few nodes"]), "{logged:?}");
        let state = jobs.status("daily").state;
        assert!(matches!(&state, JobState::WaitingForNodes { error } if error.contains("node-0")));
        scene.advance(50 * SECOND);
        assert_eq!(lines.take("WARN"), [""; 0], "one line for the outage");
        scene.advance(65 * SECOND);
        assert_eq!(lines.take("WARN"), [""; 0], "another replica may have run the tick");
        scene.nodes.start(0..3);
        scene.advance(6 * SECOND);
        let logged = lines.take("");
        let again = logged.iter().find(|line| line.starts_with("INFO")).expect("the nodes answer");
        assert!(has(again, &["job=daily", "again"]), "{again}");
        let lost = logged.iter().find(|line| line.starts_with("WARN")).expect("the tick is lost");
        assert!(
            has(
                lost,
                &[
                    "job=daily",
                    "missed",
                    "count=1",
                    "first=2025-01-02T00:00:00Z",
                    "last=2025",
                    "node-0"
                ]
            ),
            "{lost}"
        );
    });
}

#[test]
fn short_outage_ends_with_answers() {
    Lines::during(|lines| {
        let scene = Scene::new();
        let site = scene.site("a");
        let jobs = site.start([site.job("j", Schedule::every(10 * SECOND), Duration::ZERO)]);
        scene.advance(9 * SECOND);
        scene.nodes.stop(0..3);
        scene.advance(25 * SECOND);
        assert_eq!(lines.take("WARN").iter().filter(|line| line.contains("too few")).count(), 1);
        scene.nodes.start(0..3);
        scene.advance(10 * SECOND);
        assert_eq!(lines.take("INFO").iter().filter(|line| line.contains("again")).count(), 1);
        assert!(matches!(jobs.status("j").state, JobState::WaitingForTick { .. }));
        scene.nodes.stop(0..3);
        scene.advance(20 * SECOND);
        let logged = lines.take("WARN");
        assert_eq!(logged.iter().filter(|line| line.contains("too few")).count(), 1, "{logged:?}");
    });
}

#[test]
fn job_beyond_name_limit_is_logged() {
    Lines::during(|lines| {
        let scene = Scene::new();
        let site = scene.site("a");
        let builder = scene.nodes.replica("full").redlock();
        let nodes = builder.nodes().iter().map(|node| {
            MockNode::refusing(node, Reason::TooManyJobs, |op| matches!(op, Op::Prepare(_)))
        });
        let clock = scene.clock.clone();
        let full = tower_redlock::Redlock::builder().spawner(clock.spawner()).clock(clock.clone());
        let full = with_nodes(full, nodes).build().unwrap();
        let job = site.job("j", Schedule::every(10 * SECOND), Duration::ZERO);
        let scheduler = Scheduler::new(full).job(job).spawner(clock.spawner());
        let _jobs = scheduler.start().unwrap();
        scene.advance(35 * SECOND);
        let logged = lines.take("WARN");
        let mut refused = logged.iter().filter(|line| line.contains("can't be scheduled"));
        assert_eq!(refused.clone().count(), 1, "once: {logged:?}");
        assert!(has(refused.next_back().unwrap(), &["job=j", "forget unused jobs"]), "{logged:?}");
    });
}

#[test]
fn start_and_end_of_run_are_info_lines() {
    Lines::during(|lines| {
        let scene = Scene::new();
        let site = scene.site("a");
        let jobs = site.start([site.job("j", Schedule::every(HOUR), 5 * SECOND)]);

        scene.advance(HOUR + SECOND);
        let started = lines.take("INFO");
        scene.advance(5 * SECOND);
        let ended = lines.take("INFO");

        assert_eq!((started.len(), ended.len()), (1, 1), "{started:?}, {ended:?}");
        let token = format!("token={}", scene.log.entries()[0].token);
        let run = ["job=j", "tick=2025-01-01T01:00:00Z", &token, "attempt=1"];
        assert!(has(&started[0], &[&run[..], &["job started"]].concat()), "{started:?}");
        let end = ["job finished", "outcome=\"finished\"", "took=5s"];
        assert!(has(&ended[0], &[&run[..], &end].concat()), "{ended:?}");

        let trigger = jobs.handle.trigger_here("j").unwrap();
        scene.advance(6 * SECOND);

        let triggered = lines.take("INFO");
        let number = format!("trigger={}", trigger.id());
        assert_eq!(triggered.len(), 2, "{triggered:?}");
        assert!(triggered.iter().all(|line| has(line, &[&number])), "{triggered:?}");
    });
}

#[test]
fn each_attempt_cut_off_elsewhere_is_an_info_line() {
    Lines::during(|lines| {
        let scene = Scene::new();
        let sites = ["a", "b", "c"].map(|name| scene.site(name));
        let schedule = Schedule::every(HOUR);
        let start = |site: &Site| {
            let job = site.job("j", schedule.clone(), 600 * SECOND).claim(Claim::AtEnd);
            site.start([job.max_attempts(2)])
        };
        let _jobs = sites.each_ref().map(start);
        scene.advance(HOUR + SECOND);
        lines.take("");

        // Twice, so that the tick is given up.
        for attempt in [1, 2] {
            let runner = scene.log.sites().pop().expect("it runs");
            sites.iter().find(|site| site.name == runner).expect("a replica").crash();
            scene.advance(100 * SECOND);

            let logged = lines.take("INFO");
            let cut_off: Vec<_> = logged.iter().filter(|line| line.contains("cut off")).collect();
            let parts = ["job=j", "tick=2025-01-01T01:00:00Z", &format!("attempt={attempt}")];
            assert_eq!(cut_off.len(), 1, "one replica logs attempt {attempt}: {logged:?}");
            assert!(has(cut_off[0], &parts), "{logged:?}");
            assert!(has(cut_off[0], &[&format!("owner={runner}")]), "{logged:?}");
        }
        assert_eq!(scene.log.entries().len(), 2, "it is given up");
    });
}

#[test]
fn failed_run_is_one_warn_line() {
    Lines::during(|lines| {
        let scene = Scene::new();
        let site = scene.site("a");
        let job = Job::new("j", Schedule::every(HOUR), |_| async { Err::<(), _>("no disk") });
        let _jobs = site.start([job.retries(1)]);
        scene.advance(HOUR + 6 * SECOND);
        let logged = lines.take("WARN");
        assert_eq!(logged.len(), 1, "{logged:?}");
        let parts = ["job=j", "attempt=2", "outcome=\"failed\"", "error=no disk", "took=1s"];
        assert!(has(&logged[0], &parts), "{logged:?}");
    });
}

#[test]
fn run_span_has_the_outcome() {
    Lines::during(|lines| {
        let scene = Scene::new();
        let site = scene.site("a");
        let job =
            Job::new("j", Schedule::every(HOUR), |cx: tower_redlock::JobContext| async move {
                if cx.attempt() == 1 { Err("no") } else { Ok(()) }
            });
        let _jobs = site.start([job.retries(1)]);
        scene.advance(HOUR + SECOND / 2);
        let going = lines.spans().pop().unwrap();
        assert_eq!((going["job"].as_str(), going["attempt"].as_str()), ("j", "1"));
        assert!(going.contains_key("tick") && !going.contains_key("outcome"));
        scene.advance(5 * SECOND);
        let ended = lines.spans().pop().unwrap();
        assert_eq!((ended["attempt"].as_str(), ended["outcome"].as_str()), ("2", "\"finished\""));
    });
}

#[test]
fn state_shows_the_awaited_event() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    scene.nodes.stop(0..5);
    let jobs = a.start([a.job("j", Schedule::every(100 * SECOND), 50 * SECOND)]);
    let state = || jobs.status("j").state;
    assert_eq!(state(), JobState::Starting);
    scene.advance(SECOND);
    assert!(matches!(state(), JobState::WaitingForNodes { .. }));
    scene.nodes.start(0..5);
    scene.advance(10 * SECOND);
    let JobState::WaitingForTick { at } = state() else { panic!("{:?}", state()) };
    assert_eq!(Some(at), jobs.status("j").next_tick);
    jobs.handle.pause_here("j").unwrap();
    assert!(matches!(state(), JobState::Paused { .. }));
    jobs.handle.resume_here("j").unwrap();
    scene.advance(100 * SECOND);
    assert_eq!(state(), JobState::Running);
    scene.advance(50 * SECOND);
    let mut taken = scene.clock.spawn(std::future::IntoFuture::into_future(
        b.redlock.lock(tower_redlock::Resource::of_job("j").unwrap()),
    ));
    scene.clock.settle();
    let lock = taken.take().unwrap().unwrap();
    scene.advance(41 * SECOND);
    assert_eq!(state(), JobState::HeldBy { owner: Some("b".into()) });
    drop(lock);
    scene.advance(30 * SECOND);
    let past = Schedule::at(UNIX_EPOCH + a.clock.wall() - SECOND);
    let once = a.start([a.job("once", past, SECOND)]);
    scene.advance(SECOND);
    assert_eq!(once.status("once").state, JobState::NoMoreTicks);
    let kept = a.job("kept", Schedule::every(10 * SECOND), SECOND).min_hold(5 * SECOND);
    let kept = a.start([kept]);
    scene.advance(12 * SECOND);
    let status = kept.status("kept");
    assert!(status.counts.finished == 1 || status.running.is_some());
}

#[test]
fn event_capacity_grows_with_jobs() {
    let scene = Scene::new();
    let site = scene.site("a");
    let job = |number| site.job(&format!("job {number}"), Schedule::every(HOUR), SECOND);
    let mut jobs = site.start((0..1_000).map(job));
    scene.advance(HOUR + 2 * SECOND);
    // No event was lost.
    assert!(jobs.new_events().len() >= 3_000);
}

#[test]
fn event_capacity_can_be_set() {
    let scene = Scene::new();
    let site = scene.site("a");
    let job = site.job("j", Schedule::every(SECOND), MS);
    let jobs = site.run(Scheduler::new(site.redlock.clone()).job(job).event_capacity(4));
    let mut events = jobs.handle.events();
    scene.advance(10 * SECOND);
    assert!(matches!(events.try_recv(), Err(TryRecvError::Lagged(_))));
    let left = std::iter::from_fn(|| events.try_recv().ok()).count();
    assert_eq!(left, 4);
}

#[test]
fn missed_reason_belongs_to_its_tick() {
    let scene = Scene::new();
    let site = scene.site("a");
    let mut jobs = site.start([site.job("j", Schedule::every(100 * SECOND), Duration::ZERO)]);
    scene.advance(SECOND);
    jobs.handle.pause_here("j").unwrap();
    scene.advance(SECOND);
    jobs.handle.resume_here("j").unwrap();
    scene.advance(SECOND);
    // The process is paused over the first tick.
    scene.clock.leap(200 * SECOND);
    scene.advance(SECOND);
    let missed = jobs.new_events().into_iter().find_map(|event| match event.kind {
        JobEventKind::Missed { count, why, .. } => Some((count, why)),
        _ => None,
    });
    assert_eq!(missed, Some((1, MissReason::Late)));
}

//! Log lines, spans, states and the capacity of events.

use std::time::{Duration, UNIX_EPOCH};

use tokio::sync::broadcast::error::TryRecvError;
use tower_redlock::{
    Job, Schedule, Scheduler,
    error::Reason,
    node::Op,
    scheduler::{Claim, JobState, MissReason},
    time::Clock as _,
};

use crate::scheduler::{
    fixture::{DAY, Fixture, HOUR, Host, MS, SECOND},
    log_lines::{Lines, has},
};
use crate::support::mock_node::{MockNode, with_nodes};

#[test]
fn outage_costing_a_tick_is_logged() {
    Lines::during(|lines| {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let jobs = host.start([host.job("daily", Schedule::every(DAY), SECOND)]);
        fixture.advance(DAY.saturating_sub(5 * SECOND));
        lines.take("");
        fixture.nodes.stop(0..3);
        fixture.advance(6 * SECOND);
        let logged = lines.take("WARN");
        assert_eq!(logged.len(), 1, "{logged:?}");
        assert!(has(&logged[0], &["job=daily", "too few nodes"]), "{logged:?}");
        let state = jobs.status("daily").state;
        assert!(matches!(&state, JobState::WaitingForNodes { error } if error.contains("node-0")));
        fixture.advance(50 * SECOND);
        assert_eq!(lines.take("WARN"), [""; 0], "one line for the outage");
        fixture.advance(65 * SECOND);
        assert_eq!(lines.take("WARN"), [""; 0], "another replica may have run the tick");
        fixture.nodes.start(0..3);
        fixture.advance(6 * SECOND);
        let logged = lines.take("");
        let again =
            logged.iter().find(|line| line.starts_with("INFO")).expect("the nodes answer in time");
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
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let jobs = host.start([host.job("j", Schedule::every(10 * SECOND), Duration::ZERO)]);
        fixture.advance(9 * SECOND);
        fixture.nodes.stop(0..3);
        fixture.advance(25 * SECOND);
        assert_eq!(lines.take("WARN").iter().filter(|line| line.contains("too few")).count(), 1);
        fixture.nodes.start(0..3);
        fixture.advance(10 * SECOND);
        assert_eq!(lines.take("INFO").iter().filter(|line| line.contains("again")).count(), 1);
        assert!(matches!(jobs.status("j").state, JobState::WaitingForTick { .. }));
        fixture.nodes.stop(0..3);
        fixture.advance(20 * SECOND);
        let logged = lines.take("WARN");
        assert_eq!(logged.iter().filter(|line| line.contains("too few")).count(), 1, "{logged:?}");
    });
}

#[test]
fn job_beyond_name_limit_is_logged() {
    Lines::during(|lines| {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let builder = fixture.nodes.replica("full").redlock();
        let nodes = builder.nodes().iter().map(|node| {
            MockNode::refusing(node, Reason::TooManyJobs, |op| matches!(op, Op::Prepare(_)))
        });
        let clock = fixture.clock.clone();
        let full = tower_redlock::Redlock::builder().spawner(clock.spawner()).clock(clock.clone());
        let full = with_nodes(full, nodes).build().unwrap();
        let job = host.job("j", Schedule::every(10 * SECOND), Duration::ZERO);
        let scheduler = Scheduler::new(full).job(job).spawner(clock.spawner());
        let _jobs = scheduler.start().unwrap();
        fixture.advance(35 * SECOND);
        let logged = lines.take("WARN");
        let mut refused = logged.iter().filter(|line| line.contains("can't be scheduled"));
        assert_eq!(refused.clone().count(), 1, "once: {logged:?}");
        assert!(has(refused.next_back().unwrap(), &["job=j", "forget unused jobs"]), "{logged:?}");
    });
}

#[test]
fn start_and_end_of_run_are_info_lines() {
    Lines::during(|lines| {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let jobs = host.start([host.job("j", Schedule::every(HOUR), 5 * SECOND)]);
        fixture.advance(HOUR + SECOND);
        let started = lines.take("INFO");
        fixture.advance(5 * SECOND);
        let ended = lines.take("INFO");
        assert_eq!((started.len(), ended.len()), (1, 1), "{started:?}, {ended:?}");
        let token = format!("token={}", fixture.log.entries()[0].token);
        let run = ["job=j", "tick=2025-01-01T01:00:00Z", &token, "attempt=1"];
        assert!(has(&started[0], &[&run[..], &["job started"]].concat()), "{started:?}");
        let end = ["job finished", "outcome=\"finished\"", "took=5s"];
        assert!(has(&ended[0], &[&run[..], &end].concat()), "{ended:?}");
        let trigger = jobs.handle.trigger_here("j").unwrap();
        fixture.advance(6 * SECOND);
        let triggered = lines.take("INFO");
        let number = format!("trigger={}", trigger.id());
        assert_eq!(triggered.len(), 2, "{triggered:?}");
        assert!(triggered.iter().all(|line| has(line, &[&number])), "{triggered:?}");
    });
}

#[test]
fn each_attempt_cut_off_elsewhere_is_an_info_line() {
    Lines::during(|lines| {
        let (fixture, hosts) = Fixture::hosts(["a", "b", "c"]);
        let schedule = Schedule::every(HOUR);
        let start = |host: &Host| {
            let job = host.job("j", schedule.clone(), 600 * SECOND).claim(Claim::AtEnd);
            host.start([job.max_attempts(2)])
        };
        let _jobs = hosts.each_ref().map(start);
        fixture.advance(HOUR + SECOND);
        lines.take("");

        // Twice, so that the tick is given up.
        for attempt in [1, 2] {
            let runner = fixture.log.hosts().pop().expect("a replica runs the job");
            hosts
                .iter()
                .find(|host| host.name == runner)
                .expect("the run is of one of the replicas")
                .crash();
            fixture.advance(100 * SECOND);

            let logged = lines.take("INFO");
            let cut_off: Vec<_> = logged.iter().filter(|line| line.contains("cut off")).collect();
            let parts = ["job=j", "tick=2025-01-01T01:00:00Z", &format!("attempt={attempt}")];
            assert_eq!(cut_off.len(), 1, "one replica logs attempt {attempt}: {logged:?}");
            assert!(has(cut_off[0], &parts), "{logged:?}");
            assert!(has(cut_off[0], &[&format!("owner={runner}")]), "{logged:?}");
        }
        assert_eq!(fixture.log.entries().len(), 2, "it is given up");
    });
}

#[test]
fn failed_run_is_one_warn_line() {
    Lines::during(|lines| {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let job = Job::new("j", Schedule::every(HOUR), |_| async { Err::<(), _>("no disk") });
        let _jobs = host.start([job.retries(1)]);
        fixture.advance(HOUR + 6 * SECOND);
        let logged = lines.take("WARN");
        assert_eq!(logged.len(), 1, "{logged:?}");
        let parts = ["job=j", "attempt=2", "outcome=\"failed\"", "error=no disk", "took=1s"];
        assert!(has(&logged[0], &parts), "{logged:?}");
    });
}

#[test]
fn run_span_has_the_outcome() {
    Lines::during(|lines| {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let job =
            Job::new("j", Schedule::every(HOUR), |cx: tower_redlock::JobContext| async move {
                if cx.attempt() == 1 { Err("no") } else { Ok(()) }
            });
        let _jobs = host.start([job.retries(1)]);
        fixture.advance(HOUR + SECOND / 2);
        let going = lines.last_span();
        assert_eq!((going["job"].as_str(), going["attempt"].as_str()), ("j", "1"));
        assert!(going.contains_key("tick") && !going.contains_key("outcome"));
        fixture.advance(5 * SECOND);
        let ended = lines.last_span();
        assert_eq!((ended["attempt"].as_str(), ended["outcome"].as_str()), ("2", "finished"));
    });
}

#[test]
fn state_shows_the_awaited_event() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    fixture.nodes.stop(0..5);
    let jobs = a.start([a.job("j", Schedule::every(100 * SECOND), 50 * SECOND)]);
    let state = || jobs.status("j").state;
    assert_eq!(state(), JobState::Starting);
    fixture.advance(SECOND);
    assert!(matches!(state(), JobState::WaitingForNodes { .. }));
    fixture.nodes.start(0..5);
    fixture.advance(10 * SECOND);
    let JobState::WaitingForTick { at } = state() else { panic!("{:?}", state()) };
    assert_eq!(Some(at), jobs.status("j").next_tick);
    jobs.handle.pause_here("j").unwrap();
    assert!(matches!(state(), JobState::Paused { .. }));
    jobs.handle.resume_here("j").unwrap();
    fixture.advance(100 * SECOND);
    assert_eq!(state(), JobState::Running);
    fixture.advance(50 * SECOND);
    let lock = fixture.done(b.redlock.lock(tower_redlock::Resource::of_job("j").unwrap())).unwrap();
    fixture.advance(41 * SECOND);
    assert_eq!(state(), JobState::HeldBy { owner: Some("b".into()) });
    drop(lock);
    fixture.advance(30 * SECOND);
    let past = Schedule::at(UNIX_EPOCH + a.clock.wall() - SECOND);
    let once = a.start([a.job("once", past, SECOND)]);
    fixture.advance(SECOND);
    assert_eq!(once.status("once").state, JobState::NoMoreTicks);
    let kept = a.job("kept", Schedule::every(10 * SECOND), SECOND).min_hold(5 * SECOND);
    let kept = a.start([kept]);
    fixture.advance(12 * SECOND);
    let status = kept.status("kept");
    assert!(status.counts.finished == 1 || status.running.is_some());
}

#[test]
fn event_capacity_grows_with_jobs() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = |number| host.job(&format!("job {number}"), Schedule::every(HOUR), SECOND);
    let mut jobs = host.start((0..1_000).map(job));
    fixture.advance(HOUR + 2 * SECOND);
    // No event was lost.
    assert!(jobs.new_events().len() >= 3_000);
}

#[test]
fn event_capacity_can_be_set() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = host.job("j", Schedule::every(SECOND), MS);
    let jobs = host.run(Scheduler::new(host.redlock.clone()).job(job).event_capacity(4));
    let mut events = jobs.handle.events();
    fixture.advance(10 * SECOND);
    assert!(matches!(events.try_recv(), Err(TryRecvError::Lagged(_))));
    let left = std::iter::from_fn(|| events.try_recv().ok()).count();
    assert_eq!(left, 4);
}

#[test]
fn missed_reason_belongs_to_its_tick() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let mut jobs = host.start([host.job("j", Schedule::every(100 * SECOND), Duration::ZERO)]);
    fixture.advance(SECOND);
    jobs.handle.pause_here("j").unwrap();
    fixture.advance(SECOND);
    jobs.handle.resume_here("j").unwrap();
    fixture.advance(SECOND);
    // The process is paused over the first tick.
    fixture.clock.leap(200 * SECOND);
    fixture.advance(SECOND);
    let missed = jobs.missed();
    assert!(matches!(missed[..], [(1, _, MissReason::Late), ..]), "{missed:?}");
}

//! Metrics over simulated nodes and a clock of the test.

use std::{
    collections::BTreeMap,
    future::{IntoFuture, pending},
    time::Duration,
};

use metrics::Unit;
use tokio::sync::broadcast::Receiver;
use tower_redlock::{
    Job, Redlock, Schedule, Scheduler,
    lock::{LockEvent, LockEventKind},
    scheduler::Missed,
    testing::{ManualClock, Nodes},
};

use crate::recorder::{Description, Kind, Numbers};

const SECOND: Duration = Duration::from_secs(1);

/// Three nodes, and a recorder of the test's thread, which moves the clock.
struct Scene {
    clock: ManualClock,
    nodes: Nodes,
    redlock: Redlock,
    numbers: Numbers,
}

impl Scene {
    fn during(test: impl FnOnce(&Self)) {
        let clock = ManualClock::new();
        let nodes = Nodes::new(3, &clock);
        let redlock = nodes.replica("a").redlock();
        let scene = Self { clock, nodes, redlock, numbers: Numbers::default() };
        metrics::with_local_recorder(&scene.numbers, || test(&scene));
    }

    /// The values of a metric by the values of its labels.
    fn by_label(&self, name: &str) -> BTreeMap<String, u64> {
        let series = self.numbers.all().into_iter().filter(|series| series.name == name);
        let labels = series.map(|series| series.label.expect("it has labels"));
        labels
            .map(|(keys, values)| {
                let number = self.numbers.get(name, Some((&keys, &values)));
                (values, number)
            })
            .collect()
    }
}

#[test]
fn manager_describes_every_metric() {
    Scene::during(|scene| {
        let _redlock = Redlock::embedded();

        let described = scene.numbers.described();

        assert!(described.len() > 25, "{described:?}");
        for (name, Description { unit, text, .. }) in &described {
            assert!(!text.is_empty() && !text.contains('`') && !text.contains("]("), "{text}");
            let is_time = name.ends_with("_seconds");
            assert_eq!(*unit == Some(Unit::Seconds), is_time, "{name}: {unit:?}");
        }
        let of_votes = &described["redlock_node_voting"];
        assert_eq!((of_votes.kind, &*of_votes.text), (Kind::Gauge, "1 while its votes count"));
    });
}

#[test]
fn hard_stop_names_its_cause() {
    Scene::during(|scene| {
        let Scene { clock, nodes, redlock, .. } = scene;

        let limited = clock.spawn(redlock.lock("a").max_hold(SECOND).run(|_| pending::<()>()));
        clock.advance(2 * SECOND);
        let renewed = clock.spawn(redlock.lock("b").run(|_| pending::<()>()));
        clock.settle();
        nodes.stop(0..3);
        clock.advance(60 * SECOND);

        assert!(limited.is_finished() && renewed.is_finished(), "both were stopped");
        let expected = ["expired", "max_hold"].map(|cause| (cause.to_owned(), 1));
        assert_eq!(scene.by_label("redlock_hard_stops_total"), expected.clone().into());
        assert_eq!(scene.by_label("redlock_losses_total"), expected.into());
    });
}

#[test]
fn missed_ticks_name_their_reason() {
    Scene::during(|scene| {
        let Scene { clock, nodes, redlock, .. } = scene;
        let of_job = clock.clone();
        let slow = move |_| of_job.sleep(2 * SECOND + SECOND / 2);
        let every_second = Schedule::every(SECOND);
        let quick = Job::new("quick", every_second.clone(), |_| async {});
        let jobs = Scheduler::new(redlock.clone())
            .job(quick.missed(Missed::Skip).start_within(SECOND / 10))
            .job(Job::new("slow", every_second, slow).missed(Missed::Skip))
            .start()
            .unwrap();
        clock.advance(SECOND / 2);

        jobs.pause_here("quick").unwrap();
        clock.advance(5 * SECOND);
        jobs.resume_here("quick").unwrap();
        clock.advance(5 * SECOND);
        let paused = scene.by_label("redlock_job_missed_ticks_total");
        nodes.stop(0..3);
        clock.advance(5 * SECOND);
        nodes.start(0..3);
        clock.advance(20 * SECOND);

        assert_eq!(paused.get("quick,paused"), Some(&5), "{paused:?}");
        assert!(paused.get("slow,overlap") > Some(&2), "{paused:?}");
        let all = scene.by_label("redlock_job_missed_ticks_total");
        assert_eq!(all.get("quick,paused"), Some(&5), "{all:?}");
        assert!(all.get("quick,unavailable") > Some(&1), "{all:?}");
    });
}

/// Returns the number of refused requests by the events since the last call.
fn refused(events: &mut Receiver<LockEvent>) -> usize {
    let events = std::iter::from_fn(|| events.try_recv().ok());
    events.filter(|event| matches!(event.kind, LockEventKind::Refused { .. })).count()
}

#[test]
fn standby_is_not_a_refused_request() {
    Scene::during(|scene| {
        let Scene { clock, nodes, redlock, .. } = scene;
        let standby = nodes.replica("b").redlock();
        let mut events = standby.events();
        let job = |name: &'static str, parallel| {
            let of_job = clock.clone();
            let work = move |_| of_job.sleep(3 * SECOND);
            Job::new(name, Schedule::every(10 * SECOND), work).parallel(parallel)
        };
        let start = |redlock: &Redlock| {
            let jobs = Scheduler::new(redlock.clone()).job(job("one", 1)).job(job("beside", 2));
            jobs.start().unwrap()
        };
        let _jobs = [redlock, &standby].map(start);
        let _leads = clock.spawn(redlock.leader("main").run(|_| pending::<()>()));
        clock.settle();
        let _waits = clock.spawn(standby.leader("main").run(|_| pending::<()>()));

        clock.advance(600 * SECOND);
        let counts = standby.counts();
        let outcomes = scene.by_label("redlock_acquire_seconds");

        assert_eq!((counts.refused, refused(&mut events)), (0, 0), "{counts:?}");
        let held: Vec<_> = outcomes.keys().filter(|labels| labels.starts_with("held")).collect();
        assert!(held.is_empty() && !outcomes.is_empty(), "{outcomes:?}");

        let _held = clock.spawn(redlock.lock("x").run(|_| pending::<()>()));
        clock.settle();
        let request = clock.spawn(standby.lock("x").into_future());
        clock.settle();

        assert!(request.is_finished(), "a single attempt ends at once");
        assert_eq!((standby.counts().refused, refused(&mut events)), (1, 1));

        nodes.stop(0..3);
        clock.advance(60 * SECOND);

        assert!(standby.counts().refused > 2, "a candidate without a quorum is counted");
    });
}

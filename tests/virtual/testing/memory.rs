//! What a test leaves behind once it has dropped its clock, nodes, managers and handles.

use std::{
    future::IntoFuture,
    sync::{Arc, Weak},
    time::Duration,
};

use tower_redlock::{
    Redlock,
    testing::{ManualClock, Nodes},
};

use crate::support::mock_node::{MockNode, with_nodes};

const SECOND: Duration = Duration::from_secs(1);

/// A test with one manager, and what is left of it.
struct Scene {
    clock: ManualClock,
    nodes: Nodes,
    redlock: Redlock,
    left: Left,
}

/// Upgrades while the manager's node, or the work, is alive.
struct Left {
    node: Weak<()>,
    work: Weak<()>,
}

impl Scene {
    /// Returns the scene, and what its work has to keep.
    fn new() -> (Self, Arc<()>) {
        let clock = ManualClock::new();
        let nodes = Nodes::new(1, &clock);
        let (of_node, of_work) = (Arc::new(()), Arc::new(()));
        let left = Left { node: Arc::downgrade(&of_node), work: Arc::downgrade(&of_work) };
        let inner = Arc::clone(&nodes.replica("blue").redlock().nodes()[0]);
        let node = MockNode::over(&inner, move |op, reply, inner| {
            assert_eq!(Arc::strong_count(&of_node), 1, "the manager has the only one");
            inner.send(op, reply);
        });
        let builder = Redlock::builder().clock(clock.clone()).spawner(clock.spawner());
        let redlock = with_nodes(builder, [node]).build().unwrap();
        (Self { clock, nodes, redlock, left }, of_work)
    }

    /// Drops everything that a test has, and asserts that nothing is left.
    fn end(self) {
        let Self { clock, nodes, redlock, left } = self;
        clock.advance(10 * SECOND);
        assert!(left.node.upgrade().is_some() && left.work.upgrade().is_some());

        drop((redlock, nodes));
        clock.advance(10 * SECOND);
        assert!(left.work.upgrade().is_some(), "tasks run as long as their clock exists");
        drop(clock);

        assert!(left.work.upgrade().is_none(), "the work is left");
        assert!(left.node.upgrade().is_none(), "the manager is left");
    }
}

#[test]
fn waiting_request_is_freed() {
    for slots in [None, Some(1)] {
        let (scene, work) = Scene::new();
        let request = || {
            let request = scene.redlock.lock("x");
            if let Some(slots) = slots { request.slots(slots) } else { request }
        };
        let mut first = scene.clock.spawn(request().into_future());
        scene.clock.settle();
        let held = first.take().unwrap().unwrap();
        let waiting = request().wait(3_600 * SECOND);
        let task = scene.clock.spawn(async move {
            let lock = waiting.await;
            drop((lock, held, work));
        });
        scene.clock.settle();
        drop((task, first));

        scene.end();
    }
}

#[test]
fn task_that_runs_under_a_lock_is_freed() {
    let (scene, work) = Scene::new();
    let sleep = scene.clock.sleep(3_600 * SECOND);
    let request = scene.redlock.lock("x");
    drop(scene.clock.spawn(request.run(move |_| async move {
        sleep.await;
        drop(work);
    })));

    scene.end();
}

mod schedulers {
    use tower_redlock::{Job, JobContext, Schedule, Scheduler};

    use super::*;

    /// A job that keeps the work. Half of its runs last for an hour.
    fn job(name: &str, work: Arc<()>, last: bool) -> Job {
        Job::new(name, Schedule::every(SECOND), move |_: JobContext| {
            let work = Arc::clone(&work);
            async move {
                if last {
                    std::future::pending::<()>().await;
                }
                drop(work);
            }
        })
    }

    #[test]
    fn scheduler_with_jobs_is_freed() {
        let (scene, work) = Scene::new();
        let scheduler = Scheduler::new(scene.redlock.clone())
            .job(job("short", Arc::clone(&work), false))
            .job(job("long", Arc::clone(&work), true))
            .job(job("parallel", work, true).parallel(2));
        let handle = scheduler.start().unwrap();
        scene.clock.advance(10 * SECOND);
        assert!(handle.jobs().iter().any(|job| job.running.is_some()));
        drop(handle);

        scene.end();
    }

    #[test]
    fn scheduler_with_a_leader_and_a_hook_is_freed() {
        let (scene, work) = Scene::new();
        let scheduler = Scheduler::new(scene.redlock.clone())
            .job(job("led", work, false))
            .leader_only("jobs")
            .on_outcome(async |_| ());
        let handle = scheduler.start().unwrap();
        scene.clock.advance(10 * SECOND);
        assert!(handle.leads());
        drop(handle);

        scene.end();
    }

    #[test]
    fn leader_is_freed() {
        let (scene, work) = Scene::new();
        let leader = scene.redlock.leader("x");
        drop(scene.clock.spawn(leader.run(move |term| {
            let work = Arc::clone(&work);
            async move {
                term.stopping().await;
                drop(work);
            }
        })));
        scene.clock.settle();
        assert!(leader.is_leader());
        drop(leader);

        scene.end();
    }
}

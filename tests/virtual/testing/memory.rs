//! What a test leaves behind once it has dropped its clock, nodes, managers and handles.

use std::{
    future::IntoFuture,
    sync::{Arc, Weak},
};

use tower_redlock::{
    Redlock,
    testing::{ManualClock, Nodes},
};

use crate::durations::SECOND;
use crate::support::mock_node::{MockNode, with_nodes};

/// A test with one manager, and what is left of it.
struct Fixture {
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

impl Fixture {
    /// Returns the fixture, and what its work has to keep.
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
        let (fixture, work) = Fixture::new();
        let request = || {
            let request = fixture.redlock.lock("x");
            if let Some(slots) = slots { request.slots(slots) } else { request }
        };
        let mut first = fixture.clock.spawn(request().into_future());
        fixture.clock.settle();
        let held = first.take().unwrap().unwrap();
        let waiting = request().wait(3_600 * SECOND);
        let task = fixture.clock.spawn(async move {
            let lock = waiting.await;
            drop((lock, held, work));
        });
        fixture.clock.settle();
        drop((task, first));

        fixture.end();
    }
}

#[test]
fn task_that_runs_under_a_lock_is_freed() {
    let (fixture, work) = Fixture::new();
    let sleep = fixture.clock.sleep(3_600 * SECOND);
    let request = fixture.redlock.lock("x");
    drop(fixture.clock.spawn(request.run(move |_| async move {
        sleep.await;
        drop(work);
    })));

    fixture.end();
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
        let (fixture, work) = Fixture::new();
        let scheduler = Scheduler::new(fixture.redlock.clone())
            .job(job("short", Arc::clone(&work), false))
            .job(job("long", Arc::clone(&work), true))
            .job(job("parallel", work, true).parallel(2));
        let handle = scheduler.start().unwrap();
        fixture.clock.advance(10 * SECOND);
        assert!(handle.jobs().iter().any(|job| job.running.is_some()));
        drop(handle);
        fixture.end();
    }

    #[test]
    fn scheduler_with_a_leader_and_a_hook_is_freed() {
        let (fixture, work) = Fixture::new();
        let scheduler = Scheduler::new(fixture.redlock.clone())
            .job(job("led", work, false))
            .leader_only("jobs")
            .on_outcome(async |_| ());
        let handle = scheduler.start().unwrap();
        fixture.clock.advance(10 * SECOND);
        assert!(handle.is_active());
        drop(handle);
        fixture.end();
    }

    #[test]
    fn leader_is_freed() {
        let (fixture, work) = Fixture::new();
        let leader = fixture.redlock.leader("x");
        drop(fixture.clock.spawn(leader.run(move |term| {
            let work = Arc::clone(&work);
            async move {
                term.stopping().await;
                drop(work);
            }
        })));
        fixture.clock.settle();
        assert!(leader.is_leader());
        drop(leader);
        fixture.end();
    }
}

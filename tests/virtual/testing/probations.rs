//! Nodes that were never used, and nodes that forgot.

use std::{future::IntoFuture, time::Duration};

use tower_redlock::{
    Job, LockError, Redlock, Schedule, Scheduler,
    error::{Reason, VoteOutcome},
    node::NodeState,
    scheduler::Missed,
    testing::{ManualClock, Nodes},
    time::Clock,
};

use crate::durations::{MS, SECOND};
use crate::fixture::Fixture;

/// The default TTL, a hundredth of it, and 2 ms.
const PROBATION: Duration = Duration::from_millis(10_102);

fn locks(clock: &ManualClock, redlock: &Redlock) -> Result<u64, LockError> {
    let mut request = clock.spawn(redlock.lock("a").into_future());
    clock.settle();
    request.take().expect("the request ends at once").map(|lock| lock.fencing_token().get())
}

#[test]
fn fresh_nodes_vote_after_probation() {
    let clock = ManualClock::new();
    let nodes = Nodes::fresh(3, &clock);
    let redlock = nodes.replica("a").redlock();
    clock.advance(PROBATION.saturating_sub(MS));
    let Err(LockError::NoQuorum { votes }) = locks(&clock, &redlock) else { panic!() };
    let refused = VoteOutcome::NotCounted(Reason::Probation { remaining: MS });
    assert_eq!(votes[0].outcome, refused);
    let state = redlock.health()[0].state.clone();
    assert!(matches!(state, NodeState::Probation { remaining, .. } if remaining == MS), "{state}");
    assert!(redlock.readiness().is_err());
    clock.advance(MS);
    assert!(redlock.readiness().is_ok());
    let token = locks(&clock, &redlock).unwrap();
    let wall = u64::try_from(clock.wall().as_micros()).unwrap();
    assert!(token > wall + 59_000_000, "tokens of before may be as far ahead");
}

#[test]
fn delayed_job_runs_after_probation() {
    let first_run = |nodes: &dyn Fn(&ManualClock) -> Nodes| {
        let clock = ManualClock::new();
        let start = clock.now();
        let redlock = nodes(&clock).replica("a").redlock();
        let (tell, told) = std::sync::mpsc::channel();
        let of_job = clock.clone();
        let job = Job::new("j", Schedule::every_after(3600 * SECOND), move |_| {
            tell.send(of_job.now().saturating_duration_since(start)).unwrap();
            async {}
        });
        let _jobs = Scheduler::new(redlock).job(job).start().unwrap();
        clock.advance(60 * SECOND);
        told.try_recv().expect("the job ran")
    };
    assert!(first_run(&|clock| Nodes::new(3, clock)) < SECOND);
    let after = first_run(&|clock| Nodes::fresh(3, clock));
    assert!(after >= PROBATION && after < PROBATION + 10 * SECOND, "{after:?}");
}

#[test]
fn forgetful_node_learns_from_others() {
    let Fixture { clock, nodes, processes: [redlock] } = Fixture::new(3, ["a"]);
    let first = locks(&clock, &redlock).unwrap();
    nodes.forget([0]);
    clock.advance(PROBATION);
    // Now the node that forgot is needed.
    nodes.stop([1]);
    let second = locks(&clock, &redlock).unwrap();
    assert!(second > first);
    clock.advance(SECOND);
    nodes.forget([2]);
    let stays = locks(&clock, &redlock);
    assert!(matches!(stays, Err(LockError::NoQuorum { .. })), "one votes: {stays:?}");
    clock.advance(2 * PROBATION);
    assert!(locks(&clock, &redlock).is_err(), "nobody knows enough");
    nodes.start([1]);
    assert!(locks(&clock, &redlock).unwrap() > second);
}

#[test]
fn forgetful_majority_loses_lock() {
    for (forget, is_lost) in [(1, false), (2, true)] {
        let clock = ManualClock::new();
        let nodes = Nodes::new(3, &clock);
        let (at_a, at_b) = (nodes.replica("a").redlock(), nodes.replica("b").redlock());
        let sleep = clock.sleep(60 * SECOND);
        let mut work = clock.spawn(at_a.lock("a").run(|_| sleep));
        clock.advance(SECOND);
        nodes.forget(0..forget);
        let mut other = clock.spawn(at_b.lock("a").wait(30 * SECOND).into_future());
        clock.advance(30 * SECOND);
        assert_eq!(work.is_finished(), is_lost);
        assert_eq!(other.take().unwrap().is_ok(), is_lost, "never two at a time");
        clock.advance(30 * SECOND);
        assert_eq!(work.take().expect("the work is over").is_err(), is_lost);
    }
}

#[test]
fn probation_lasts_longest_ttl_after_restart() {
    let Fixture { clock, nodes, .. } = Fixture::new(3, []);
    let redlock = nodes.replica("a").builder().max_ttl(60 * SECOND).build().unwrap();
    let mut long = clock.spawn(redlock.lock("b").ttl(60 * SECOND).into_future());
    clock.settle();
    drop(long.take().unwrap().unwrap());
    nodes.stop([0]);
    nodes.forget([0]);
    clock.advance(3600 * SECOND);
    nodes.start([0]);
    clock.advance(60 * SECOND);
    let remaining = |node: usize| match redlock.health()[node].state {
        NodeState::Probation { remaining, .. } => Some(remaining),
        _ => None,
    };
    assert_eq!(remaining(0), Some(602 * MS));
    clock.advance(602 * MS);
    assert_eq!(remaining(0), None);
}

/// Ticks before a majority forgot count as started, as no node knows whether they ran.
#[test]
fn ticks_before_bootstrap_count_as_started() {
    let Fixture { clock, nodes, processes: [redlock] } = Fixture::new(3, ["a"]);
    let (tell, told) = std::sync::mpsc::channel();
    let start = u64::try_from(clock.wall().as_millis()).unwrap();
    let job = Job::new("j", Schedule::every(5 * SECOND), move |cx: tower_redlock::JobContext| {
        tell.send((cx.tick().as_millis() - start) / 1_000).unwrap();
        async {}
    });
    let job = job.missed(Missed::RunAll { at_most: 100 });
    let _jobs = Scheduler::new(redlock).job(job).start().unwrap();
    clock.advance(12 * SECOND);
    nodes.forget([0, 1]);

    clock.advance(20 * SECOND);

    // From 12 s to 22.102 s no quorum knew which ticks had run.
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [5, 10, 25, 30]);
}

//! Attempts that get no quorum because of each other: their releases wake those that they refused. In
//! virtual time.

use std::{
    future::IntoFuture,
    sync::{Arc, Mutex},
    time::Duration,
};

use tower_redlock::{
    Redlock,
    error::Reason,
    node::{Node, Op, Reply},
    testing::{ManualClock, Nodes},
    time::{Clock as _, Timestamp},
};

use crate::durations::{MINUTE, MS, SECOND};
use crate::support::mock_node::{MockNode, Withheld, with_nodes};

/// Times at which locks were granted, or terms began.
type Times = Arc<Mutex<Vec<Timestamp>>>;

fn manager(clock: &ManualClock, nodes: impl IntoIterator<Item = MockNode>) -> Redlock {
    let builder = Redlock::builder().clock(clock.clone()).spawner(clock.spawner());
    with_nodes(builder, nodes).build().unwrap()
}

/// Starts a process that waits for the lock.
fn wait(clock: &ManualClock, nodes: &Nodes, process: usize, times: &Times) {
    let replica = nodes.replica(format!("waiter {process}"));
    let (redlock, time, times) = (replica.redlock(), clock.clone(), Arc::clone(times));
    drop(clock.spawn(async move {
        let _replica = replica;
        let lock = redlock.lock("x").wait(MINUTE).await.unwrap();
        times.lock().unwrap().push(time.now());
        drop(lock);
    }));
}

/// Forwards acquires 1 ms later to all nodes but one, and answers after another `back`.
fn first_at(
    clock: &ManualClock,
    inner: &Arc<dyn Node>,
    is_first: bool,
    back: Duration,
) -> MockNode {
    let (clock, node) = (clock.clone(), Arc::clone(inner));
    MockNode::over(inner, move |op, reply, _| {
        let there = if is_first || !matches!(op, Op::Acquire(_)) { Duration::ZERO } else { MS };
        let (time, node) = (clock.clone(), Arc::clone(&node));
        drop(clock.spawn(async move {
            time.sleep(there).await;
            let arrival = time.clone();
            let answer = move |answer| {
                drop(arrival.clone().spawn(async move {
                    arrival.sleep(back).await;
                    reply.send(answer);
                }));
            };
            node.send(op, Reply::from_fn(answer));
        }));
    })
}

/// A single attempt is granted by the node that the crowd asks first, and is refused by the holder,
/// which releases before the attempt has its answers.
#[test]
fn single_attempt_wakes_the_crowd_that_it_refused() {
    let clock = ManualClock::with_seed(1);
    let nodes = Nodes::new(3, &clock);
    let holder = nodes.replica("holder").redlock();
    let without_first = holder.nodes().iter().enumerate().map(|(i, node)| {
        MockNode::refusing(node, Reason::Busy, move |op| i == 0 && matches!(op, Op::Acquire(_)))
    });
    let holder = manager(&clock, without_first);
    let mut held = clock.spawn(holder.lock("x").into_future());
    clock.settle();
    let held = held.take().expect("a quorum answers at once").unwrap();
    let times = Times::default();
    (0..4).for_each(|process| wait(&clock, &nodes, process, &times));
    clock.advance(3 * SECOND);
    let withheld = Withheld::default();
    let single = nodes.replica("single").redlock();
    let answers = single.nodes().iter();
    let single =
        manager(&clock, answers.map(|node| withheld.node(node, |op| matches!(op, Op::Acquire(_)))));
    let attempt = clock.spawn(single.lock("x").into_future());
    clock.settle();
    drop(held);
    clock.advance(10 * MS);
    assert!(times.lock().unwrap().is_empty(), "the attempt has the first node");
    withheld.deliver();
    clock.settle();
    let free_at = clock.now();
    clock.advance(SECOND / 10);
    drop(attempt);
    let times = times.lock().unwrap();
    assert_eq!(times.len(), 4, "all are served within 0.1 s");
    assert!(times.iter().all(|at| *at >= free_at));
}

#[test]
fn split_single_attempts_wake_a_waiter() {
    let clock = ManualClock::with_seed(1);
    let nodes = Nodes::new(3, &clock);
    let withheld = Withheld::default();
    let attempts: Vec<_> = (0..3)
        .map(|process| {
            let replica = nodes.replica(format!("single {process}")).redlock();
            let mocks = replica.nodes().iter().enumerate().map(|(i, node)| {
                let kept: Arc<dyn Node> =
                    Arc::new(withheld.node(node, |op| matches!(op, Op::Acquire(_))));
                first_at(&clock, &kept, i == process, Duration::ZERO)
            });
            clock.spawn(manager(&clock, mocks).lock("x").into_future())
        })
        .collect();
    clock.advance(2 * MS);
    let times = Times::default();
    wait(&clock, &nodes, 0, &times);
    clock.advance(2 * MS);

    withheld.deliver();
    clock.advance(SECOND / 10);

    for mut attempt in attempts {
        attempt.take().expect("the attempt has ended").unwrap_err();
    }
    assert_eq!(times.lock().unwrap().len(), 1, "served within 0.1 s");
}

#[test]
fn split_candidates_elect_one_at_once() {
    let clock = ManualClock::with_seed(1);
    let nodes = Nodes::new(3, &clock);
    let terms = Times::default();
    for process in 0..3 {
        let replica = nodes.replica(format!("candidate {process}"));
        let redlock = replica.redlock();
        let mocks = redlock.nodes().iter().enumerate();
        let mocks = mocks.map(|(i, node)| first_at(&clock, node, i == process, 3 * MS));
        let leader = manager(&clock, mocks).leader("x");
        let (time, terms) = (clock.clone(), Arc::clone(&terms));
        drop(clock.spawn(async move {
            let _replica = replica;
            let _ = leader
                .run(move |_| {
                    terms.lock().unwrap().push(time.now());
                    std::future::pending::<()>()
                })
                .await;
        }));
    }
    clock.advance(SECOND);
    assert_eq!(terms.lock().unwrap().len(), 1);
}

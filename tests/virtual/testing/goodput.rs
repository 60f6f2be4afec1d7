//! Thousands of waiters over nodes with a limited rate of answers, in virtual time.

use std::{
    collections::VecDeque,
    future::IntoFuture,
    sync::{Arc, Mutex},
};

use tower_redlock::{
    Lock, Redlock,
    node::{Op, Reply},
    testing::{ManualClock, Nodes},
};

use crate::durations::{MINUTE, MS, SECOND};
use crate::fixture::Fixture;
use crate::support::mock_node::{MockNode, with_nodes};

/// Operations that a node runs in a millisecond, for all clients together.
const CAPACITY: u32 = 20;

type Waiting = VecDeque<(Op, Reply)>;

/// A manager for each of the clients, over nodes that serve the clients in turns.
fn clients<const N: usize>(clock: &ManualClock, nodes: &Nodes, waiters: usize) -> [Redlock; N] {
    let lenders: [Redlock; N] =
        std::array::from_fn(|i| nodes.replica(format!("client-{i}")).redlock());
    let queues: Vec<[Arc<Mutex<Waiting>>; N]> =
        (0..nodes.len()).map(|_| std::array::from_fn(|_| Arc::default())).collect();
    for (index, queues) in queues.iter().enumerate() {
        let (turns, queues) = (clock.clone(), queues.clone());
        let inner: Vec<_> = lenders.iter().map(|lender| lender.nodes()[index].clone()).collect();
        drop(clock.spawn(async move {
            loop {
                turns.sleep(MS).await;
                let mut left = CAPACITY;
                let mut idle = 0;
                for client in (0..N).cycle() {
                    if left == 0 || idle == N {
                        break;
                    }
                    let next = queues[client].lock().unwrap().pop_front();
                    let Some((op, reply)) = next else {
                        idle += 1;
                        continue;
                    };
                    (idle, left) = (0, left - 1);
                    inner[client].send(op, reply);
                }
            }
        }));
    }
    std::array::from_fn(|client| {
        let builder = Redlock::builder().clock(clock.clone()).spawner(clock.spawner());
        // The operations of a client wait at a node for their turn.
        let connections = (0..nodes.len()).map(|node| {
            let waiting = Arc::clone(&queues[node][client]);
            MockNode::over(&lenders[client].nodes()[node], move |op, reply, _| {
                waiting.lock().unwrap().push_back((op, reply));
            })
        });
        let builder = with_nodes(builder, connections);
        builder.ttl(MINUTE).max_waiters_in_total(waiters + 1).build().unwrap()
    })
}

/// Returns the grants per second after all names were released at once.
#[expect(clippy::cast_precision_loss, reason = "a few thousand")]
fn goodput(waiters: usize) -> f64 {
    let Fixture { clock, nodes, .. } = Fixture::new(3, []);
    let [holder, crowd] = clients::<2>(&clock, &nodes, waiters);
    let held: Vec<_> = (0..waiters)
        .map(|i| clock.spawn(holder.lock(format!("name:{i}")).wait(MINUTE).into_future()))
        .collect();
    clock.advance(2 * SECOND);
    let held: Vec<Lock> =
        held.into_iter().map(|mut lock| lock.take().expect("the lock is free").unwrap()).collect();
    let mut waiting: Vec<_> = (0..waiters)
        .map(|i| clock.spawn(crowd.lock(format!("name:{i}")).wait(10 * MINUTE).into_future()))
        .collect();
    clock.advance(2 * SECOND);
    drop(held);
    let mut millis = 0_u32;
    while !waiting.is_empty() {
        clock.advance(10 * MS);
        millis += 10;
        assert!(millis < 300_000, "{} of {waiters} are not granted", waiting.len());
        waiting.retain_mut(|task| match task.take() {
            Some(lock) => {
                drop(lock.unwrap());
                false
            }
            None => true,
        });
    }
    waiters as f64 / f64::from(millis) * 1_000.0
}

/// A grant takes each node three operations: the release before it, the acquire and its own release.
/// Attempts that time out, and tries that no release prompted, take more.
#[test]
fn is_independent_of_waiter_count() {
    let all = [500, 5_000].map(|waiters| (waiters, goodput(waiters)));
    println!("{all:?}");
    let best = f64::from(CAPACITY) * 1_000.0 / 3.0;
    assert!(all.iter().all(|(_, rate)| *rate >= 0.8 * best), "{all:?}, of {best} at best");
}

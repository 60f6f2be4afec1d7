//! Processes that all want one name, over nodes that answer late and unevenly, in virtual time.

use std::{
    future::IntoFuture,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tower_redlock::{
    LockError, Redlock,
    error::{Reason, Vote, VoteOutcome},
    node::{Node, NodeState, Op, Reply},
    testing::{ManualClock, Nodes},
    time::Clock as _,
};

use crate::durations::{MINUTE, MS, SECOND};
use crate::support::mock_node::{MockNode, with_nodes};

const PROCESSES: usize = 4;
const NODES: usize = 5;
const HOLD: Duration = Duration::from_millis(500);

/// What a crowd did in a minute.
struct Crowd {
    /// Grants of each process.
    grants: Vec<u64>,
    /// Number of acquires that a node ran for a grant.
    acquires: f64,
    /// Number of releases that a node ran for a grant.
    releases: f64,
}

impl Crowd {
    /// Runs a task in each process. Each operation arrives after 0 to `jitter` beyond half of the round trip.
    fn run(round_trip: Duration, jitter: Duration) -> Self {
        Self::run_over(round_trip, jitter, |_, node| node)
    }

    /// Does so over the nodes that `change` makes of these.
    fn run_over(
        round_trip: Duration,
        jitter: Duration,
        change: impl Fn(usize, MockNode) -> MockNode,
    ) -> Self {
        let clock = ManualClock::with_seed(1);
        let nodes = Nodes::new(NODES, &clock);
        let [acquires, releases] = [(); 2].map(|()| Arc::<AtomicU64>::default());
        let grants = Arc::new(Mutex::new(vec![0; PROCESSES]));
        let until = clock.now() + MINUTE;
        for process in 0..PROCESSES {
            let delays = Delays::new(process, round_trip, jitter);
            let replica = nodes.replica(format!("p{process}")).redlock();
            let counts = [Arc::clone(&acquires), Arc::clone(&releases)];
            let nodes = replica.nodes().iter().enumerate().map(|(i, node)| {
                let node = counted(&clock, node, &delays, counts.clone());
                change(i, node.with_round_trip(round_trip))
            });
            let builder = Redlock::builder().clock(clock.clone()).spawner(clock.spawner());
            let redlock = with_nodes(builder, nodes).build().unwrap();
            let (time, grants) = (clock.clone(), Arc::clone(&grants));
            drop(clock.spawn(async move {
                while time.now() < until {
                    let Ok(lock) = redlock.lock("x").wait(MINUTE).await else { continue };
                    grants.lock().unwrap()[process] += 1;
                    time.sleep(HOLD).await;
                    drop(lock);
                }
            }));
        }
        clock.advance(MINUTE + 10 * SECOND);
        let grants = std::mem::take(&mut *grants.lock().unwrap());
        let all = grants.iter().sum::<u64>() * u64::try_from(NODES).unwrap();
        let each = |count: &AtomicU64| ratio(count.load(Ordering::Relaxed), all);
        Self { acquires: each(&acquires), releases: each(&releases), grants }
    }

    fn held(&self) -> f64 {
        let grants = u32::try_from(self.grants.iter().sum::<u64>()).unwrap();
        (HOLD * grants).as_secs_f64() / MINUTE.as_secs_f64()
    }

    fn least_to_most(&self) -> f64 {
        ratio(*self.grants.iter().min().unwrap(), *self.grants.iter().max().unwrap())
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    let [part, whole] = [part, whole].map(|count| f64::from(u32::try_from(count).unwrap()));
    part / whole
}

/// Delays of messages, which differ from one to the next.
#[derive(Clone)]
struct Delays {
    state: Arc<AtomicU64>,
    half: Duration,
    jitter: Duration,
}

impl Delays {
    fn new(seed: usize, round_trip: Duration, jitter: Duration) -> Self {
        let state = Arc::new(AtomicU64::new(u64::try_from(seed).unwrap() + 1));
        Self { state, half: round_trip / 2, jitter }
    }

    fn next(&self) -> Duration {
        let step = |x: u64| Some(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        let x = self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).unwrap();
        self.half + self.jitter * u32::try_from(x >> 54).unwrap() / 1024
    }
}

/// A node to which messages, and from which answers, take some time. Commands of a process arrive in
/// order.
fn counted(
    clock: &ManualClock,
    inner: &Arc<dyn Node>,
    delays: &Delays,
    [acquires, releases]: [Arc<AtomicU64>; 2],
) -> MockNode {
    let (clock, node, delays) = (clock.clone(), Arc::clone(inner), delays.clone());
    let last = Arc::new(Mutex::new(clock.now()));
    MockNode::over(inner, move |op, reply, _| {
        match op {
            Op::Acquire(_) => _ = acquires.fetch_add(1, Ordering::Relaxed),
            Op::Release(_) => _ = releases.fetch_add(1, Ordering::Relaxed),
            _ => {}
        }
        let arrival = {
            let mut last = last.lock().unwrap();
            *last = (*last + Duration::from_nanos(1)).max(clock.now() + delays.next());
            *last
        };
        let (there, back, node, delays) =
            (clock.clone(), clock.clone(), Arc::clone(&node), delays.clone());
        drop(clock.spawn(async move {
            there.sleep(arrival.saturating_duration_since(there.now())).await;
            let send = move |answer| {
                let arrival = back.clone();
                drop(back.spawn(async move {
                    arrival.sleep(delays.next()).await;
                    reply.send(answer);
                }));
            };
            node.send(op, Reply::from_fn(send));
        }));
    })
}

/// Nodes that are all as far away are asked one first, as near ones are, so that attempts split no votes.
#[test]
fn distant_nodes_are_asked_in_turn() {
    for (round_trip, jitter) in [(0, 1), (1, 1), (8, 4), (20, 1)] {
        let crowd = Crowd::run(MS * round_trip, MS * jitter);

        let Crowd { grants, acquires, releases } = &crowd;
        let what =
            format!("{round_trip} ms, {jitter} ms: {grants:?}, {acquires:.2}, {releases:.2}");
        assert!(crowd.held() > 0.9, "held {:.2}: {what}", crowd.held());
        assert!(crowd.least_to_most() > 0.5, "least to most: {what}");
        assert!(*acquires < 2.5 && *releases < 1.3, "acquires and releases for a grant: {what}");
    }
}

#[test]
fn fast_node_without_a_vote_sets_no_pace() {
    let crowd = Crowd::run_over(MS * 20, MS, |i, node| {
        let probation =
            NodeState::Probation { remaining: MINUTE, since: Duration::ZERO, blocked: None };
        if i == 4 { node.in_state(probation).with_round_trip(Duration::ZERO) } else { node }
    });

    assert!(crowd.acquires < 2.5, "acquires for a grant: {:.2}", crowd.acquires);
}

/// The answer of one node is not a verdict, so requests of one attempt ask all nodes, in a crowd as well.
#[test]
fn only_attempt_asks_all_nodes() {
    let clock = ManualClock::with_seed(1);
    let nodes = Nodes::new(NODES, &clock);
    let until = clock.now() + MINUTE;
    let refusals = Arc::new(Mutex::new(Vec::new()));
    for process in 0..PROCESSES {
        let delays = Delays::new(process, MS, MS);
        let replica = nodes.replica(format!("p{process}")).redlock();
        let nodes = replica.nodes().iter().map(|node| {
            counted(&clock, node, &delays, [(); 2].map(|()| Arc::default())).with_round_trip(MS)
        });
        let builder = Redlock::builder().clock(clock.clone()).spawner(clock.spawner());
        let redlock = with_nodes(builder, nodes).build().unwrap();
        let (time, refusals) = (clock.clone(), Arc::clone(&refusals));
        drop(clock.spawn(async move {
            // The first of two leaves a subscription, which tells how many others wait.
            for attempts in [u32::MAX, 1].into_iter().cycle().take_while(|_| time.now() < until) {
                match redlock.lock("x").wait(MINUTE).max_attempts(attempts).await {
                    Ok(lock) => {
                        time.sleep(MS * 10).await;
                        drop(lock);
                    }
                    Err(LockError::Held { votes, .. }) => {
                        let is_held =
                            |vote: &&Vote| matches!(vote.outcome, VoteOutcome::Held { .. });
                        refusals.lock().unwrap().push(votes.iter().filter(is_held).count());
                        time.sleep(MS * 10).await;
                    }
                    Err(_) => time.sleep(MS * 10).await,
                }
            }
        }));
    }
    clock.advance(MINUTE + 10 * SECOND);

    let refusals = refusals.lock().unwrap();
    assert!(refusals.len() > 100, "{} refusals", refusals.len());
    assert!(refusals.iter().all(|held| *held > 1), "nodes that refused: {refusals:?}");
}

/// Returns the acquires of four waiters in 4 s, in which a holder has a quorum, but not the node that
/// they ask first.
fn acquires_while_held(count: usize, down: Option<usize>) -> u64 {
    let clock = ManualClock::with_seed(1);
    let nodes = Nodes::new(count, &clock);
    let acquires = Arc::<AtomicU64>::default();
    let build = |nodes: Vec<MockNode>| {
        let builder = Redlock::builder().clock(clock.clone()).spawner(clock.spawner());
        with_nodes(builder, nodes).build().unwrap()
    };
    let refuses = move |i| i == 0 || Some(i) == down;
    let holder = nodes.replica("holder").redlock();
    let without_first = holder.nodes().iter().enumerate().map(|(i, node)| {
        MockNode::refusing(node, Reason::Busy, move |op| refuses(i) && matches!(op, Op::Acquire(_)))
    });
    let holder = build(without_first.collect());
    let mut held = clock.spawn(holder.lock("x").into_future());
    clock.settle();
    let held = held.take().expect("a quorum answers at once").unwrap();

    let waiting: Vec<_> = (0..4)
        .map(|process| {
            let delays = Delays::new(process, MS, MS);
            let replica = nodes.replica(format!("p{process}")).redlock();
            let counts = [Arc::clone(&acquires), Arc::default()];
            let nodes = replica.nodes().iter().enumerate().map(|(i, node)| {
                let is_down = Some(i) == down;
                let node: Arc<dyn Node> =
                    Arc::new(MockNode::refusing(node, Reason::Busy, move |_| is_down));
                counted(&clock, &node, &delays, counts.clone())
            });
            let redlock = build(nodes.collect());
            clock.spawn(async move { redlock.lock("x").wait(MINUTE).await.map(drop) })
        })
        .collect();
    clock.advance(4 * SECOND);
    let asked = acquires.load(Ordering::Relaxed);
    drop(held);
    clock.advance(SECOND);
    for mut request in waiting {
        request.take().expect("served within a second").unwrap();
    }
    asked
}

#[test]
fn holder_without_the_lead_node_starts_no_storm() {
    for (count, down) in [(3, None), (4, None), (5, None), (5, Some(4)), (6, None), (7, Some(6))] {
        let asked = acquires_while_held(count, down);
        // A round of all, and one a second.
        let few = u64::try_from(4 * count * 10).unwrap();
        assert!(asked < few, "{asked} acquires at {count} nodes, down {down:?}");
    }
}

//! Requests that wait for one of several slots, in virtual time.

use std::{
    future::IntoFuture,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures_util::future::{AbortHandle, abortable};
use tower_redlock::{
    Lock, LockError, LockRequest, Redlock,
    node::{Hint, Hints, Node, Op, Reply},
    testing::{ManualClock, Nodes, Task},
};

use crate::durations::{MINUTE, MS, SECOND};
use crate::fixture::{Acquiring, granted, poll};
use crate::support::mock_node::{MockNode, with_nodes};

/// Processes over three nodes.
struct Fixture {
    clock: ManualClock,
    nodes: Nodes,
    processes: Vec<Redlock>,
}

impl Fixture {
    /// Processes whose round trips to the nodes take these times.
    fn new(round_trips: &[Duration]) -> Self {
        let clock = ManualClock::with_seed(1);
        let nodes = Nodes::new(3, &clock);
        let process = |(i, round_trip): (usize, &Duration)| {
            let replica = nodes.replica(format!("p{i}")).redlock();
            let nodes = replica.nodes().iter().map(|node| distant(&clock, node, *round_trip));
            let builder = Redlock::builder().clock(clock.clone()).spawner(clock.spawner());
            with_nodes(builder.owner(format!("p{i}")), nodes).build().unwrap()
        };
        let processes = round_trips.iter().enumerate().map(process).collect();
        Self { clock, nodes, processes }
    }

    fn near(processes: usize) -> Self {
        Self::new(&vec![Duration::ZERO; processes])
    }

    fn request(&self, process: usize, slots: u32) -> LockRequest {
        self.processes[process].lock("export").slots(slots)
    }

    fn begin(&self, request: LockRequest) -> Acquiring {
        let task = self.clock.spawn(request.into_future());
        self.clock.settle();
        task
    }

    fn begin_abortable(&self, request: LockRequest) -> AbortHandle {
        let (acquire, handle) = abortable(request.into_future());
        drop(self.clock.spawn(acquire));
        self.clock.settle();
        handle
    }

    /// Makes a single attempt at near nodes.
    fn attempt(&self, process: usize, slots: u32) -> Result<Lock, LockError> {
        self.begin(self.request(process, slots)).take().expect("the nodes answer at once")
    }

    fn fill(&self, process: usize, slots: u32) -> Vec<Lock> {
        (0..slots).map(|_| self.attempt(process, slots).unwrap()).collect()
    }

    /// Starts tasks that hold slots again and again. Returns the count of their holds.
    fn work(&self, process: usize, slots: u32, tasks: u32, hold: Duration) -> Arc<AtomicU32> {
        let count = Arc::<AtomicU32>::default();
        for _ in 0..tasks {
            let (counted, clock) = (Arc::clone(&count), self.clock.clone());
            let redlock = self.processes[process].clone();
            drop(self.clock.spawn(async move {
                loop {
                    let request = redlock.lock("export").slots(slots);
                    let lock = request.wait(60 * MINUTE).await.unwrap();
                    counted.fetch_add(1, Ordering::Relaxed);
                    clock.sleep(hold).await;
                    drop(lock);
                }
            }));
        }
        count
    }
}

/// A node that answers after this time.
fn distant(clock: &ManualClock, inner: &Arc<dyn Node>, round_trip: Duration) -> MockNode {
    if round_trip.is_zero() {
        return MockNode::forwarding(inner);
    }
    let (clock, node) = (clock.clone(), Arc::clone(inner));
    MockNode::over(inner, move |op, reply, _| {
        let (there, back, node) = (clock.clone(), clock.clone(), Arc::clone(&node));
        drop(clock.spawn(async move {
            there.sleep(round_trip / 2).await;
            let send = move |answer| {
                let arrival = back.clone();
                drop(back.spawn(async move {
                    arrival.sleep(round_trip / 2).await;
                    reply.send(answer);
                }));
            };
            node.send(op, Reply::from_fn(send));
        }));
    })
}

#[test]
fn slots_released_together_wake_a_process_each() {
    let fixture = Fixture::near(3);
    let held = fixture.fill(0, 2);
    let waiting = [1, 2].map(|process| fixture.begin(fixture.request(process, 2).wait(MINUTE)));
    fixture.clock.advance(10 * MS);

    drop(held);
    // Much less than any pause without a message.
    fixture.clock.advance(20 * MS);

    assert!(waiting.iter().all(Task::is_finished));
}

#[test]
fn busy_near_process_leaves_slots_to_a_distant_one() {
    // How much more often a near task may be served than a distant one.
    for (slots, most) in [(1, 5), (4, 2)] {
        let fixture = Fixture::new(&[MS / 5, 8 * MS]);
        let near = fixture.work(0, slots, 2 * slots, 7 * MS);
        let distant = fixture.work(1, slots, 2, 7 * MS);

        fixture.clock.advance(10 * SECOND);

        let (near, distant) = (near.load(Ordering::Relaxed), distant.load(Ordering::Relaxed));
        assert!(most * distant / 2 > near / (2 * slots), "{slots} slots: {near} and {distant}");
    }
}

#[test]
fn hung_node_does_not_delay_the_choice() {
    let fixture = Fixture::near(2);
    let _held = fixture.fill(1, 3);
    fixture.nodes.freeze([2]);

    let _last = fixture.attempt(0, 4).unwrap();

    assert!(fixture.attempt(0, 4).is_err());
}

#[test]
fn a_third_attempt_waits_for_a_release() {
    let fixture = Fixture::near(2);
    let held = fixture.fill(0, 2);
    // As for a lock, the second one follows the subscription.
    let mut waiting = fixture.begin(fixture.request(1, 2).wait(MINUTE).max_attempts(3));
    fixture.clock.advance(100 * MS);
    assert!(!waiting.is_finished());
    drop(held);
    fixture.clock.settle();
    drop(granted(&mut waiting));
}

#[test]
fn a_line_uses_all_slots_at_distant_nodes() {
    let fixture = Fixture::new(&[10 * MS]);
    let served = fixture.work(0, 64, 100, 50 * MS);

    fixture.clock.advance(10 * SECOND);

    // A hold and three round trips for each: 64 slots have room for 8,000 holds.
    let served = served.load(Ordering::Relaxed);
    assert!(served > 6_000, "{served}");
}

#[test]
fn single_attempt_leaves_no_turn_to_others() {
    let fixture = Fixture::near(2);
    let held = fixture.attempt(0, 1).unwrap();
    // It still listens after it has left.
    let former = fixture.begin_abortable(fixture.request(1, 1).wait(MINUTE));
    fixture.clock.advance(100 * MS);
    former.abort();
    fixture.clock.settle();
    drop(held);
    let pausing = fixture.begin_abortable(fixture.request(0, 1).wait(MINUTE));
    pausing.abort();
    fixture.clock.settle();

    assert!(fixture.attempt(0, 1).is_ok());
}

#[test]
fn timeout_in_line_is_of_slots() {
    let fixture = Fixture::near(2);
    let _held = fixture.fill(1, 2);
    let first = fixture.begin_abortable(fixture.request(0, 2).wait(MINUTE));
    let _second = fixture.begin(fixture.request(0, 2).wait(MINUTE));
    fixture.nodes.freeze(0..3);
    // The second request is the first now, and has no answer yet.
    first.abort();
    let mut third = fixture.begin(fixture.request(0, 2).wait(20 * MS));

    fixture.clock.advance(30 * MS);

    let error = third.take().expect("the wait is over").unwrap_err();
    let LockError::Held { slots, .. } = error.root() else { panic!("{error:?}") };
    assert_eq!(slots.len(), 2);
}

#[test]
fn holder_of_a_slot_without_waiters_is_not_awaited() {
    let fixture = Fixture::near(1);
    let held = fixture.attempt(0, 2).unwrap();
    let (redlock, slot) = (fixture.processes[0].clone(), held.resource().clone());
    let mut inspecting = fixture.clock.spawn(async move { redlock.inspect(slot).await });

    fixture.clock.settle();

    let holder = inspecting.take().expect("the nodes answer at once").unwrap();
    assert!(!holder.expect("the lock is held").is_awaited);
}

#[test]
fn requests_dropped_at_any_time_leave_nothing() {
    for seed in 0..10 {
        let fixture = Fixture::new(&[4 * MS, 4 * MS]);
        let mut random = Random(seed);
        let mut running = Vec::new();
        for step in 0..300 {
            let process = usize::try_from(random.below(2)).unwrap();
            // Some make a single attempt.
            let wait = MS * random.below(200).saturating_sub(50);
            let acquire = fixture.request(process, 3).wait(wait).into_future();
            let (time, hold) = (fixture.clock.clone(), MS * random.below(10));
            let (work, handle) = abortable(async move {
                let lock = acquire.await;
                time.sleep(hold).await;
                drop(lock);
            });
            drop(fixture.clock.spawn(work));
            running.push((handle, step + random.below(40)));
            let is_over = |(_, until): &mut (_, u32)| *until <= step;
            running.extract_if(.., is_over).for_each(|(handle, _)| handle.abort());
            fixture.clock.advance(MS);
        }
        for (handle, _) in &running {
            handle.abort();
        }
        fixture.clock.advance(500 * MS);

        assert_eq!(fixture.nodes.key_counts(), [0, 0, 0], "seed {seed}");
        let requests = [0, 1, 0].map(|process| fixture.begin(fixture.request(process, 3)));
        fixture.clock.advance(100 * MS);
        let granted = |mut request: Acquiring| request.take().expect("the nodes answer in time");
        let locks = requests.map(granted);
        assert!(locks.iter().all(Result::is_ok), "seed {seed}: {locks:?}");
    }
}

/// A linear congruential generator.
struct Random(u64);

impl Random {
    fn below(&mut self, below: u32) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.0 >> 33) % u64::from(below)).unwrap_or(0)
    }
}

#[test]
fn turn_at_a_free_slot_outlasts_a_hand_off() {
    for is_handed in [false, true] {
        let fixture = Fixture::near(2);
        let old = fixture.attempt(0, 2).unwrap();
        fixture.clock.advance(150 * MS);
        let young = fixture.attempt(0, 2).unwrap();
        // It still listens after it has left.
        let former = fixture.begin_abortable(fixture.request(1, 2).wait(MINUTE));
        let mut first = fixture.begin(fixture.request(0, 2).wait(MINUTE));
        let second = fixture.begin(fixture.request(0, 2).wait(MINUTE));
        fixture.clock.advance(20 * MS);
        former.abort();
        fixture.clock.settle();
        drop(old);
        fixture.clock.settle();
        assert!(!first.is_finished(), "it leaves the slot to other processes first");
        let mut held = Vec::new();
        if is_handed {
            drop(young);
            fixture.clock.settle();
            held.push(granted(&mut first));
        } else {
            held.push(young);
        }
        fixture.clock.advance(100 * MS);
        let is_served = if is_handed { second.is_finished() } else { first.is_finished() };
        assert!(is_served, "one slot is free, handed: {is_handed}");
    }
}

#[test]
fn requests_for_other_numbers_leave_no_listener() {
    let served = |numbers: [u32; 2]| {
        let fixture = Fixture::near(2);
        let mut held = fixture.fill(0, 2);
        let mut first = fixture.begin(fixture.request(0, numbers[0]).wait(MINUTE));
        let mut second = fixture.begin(fixture.request(0, numbers[1]).wait(MINUTE));
        fixture.clock.advance(10 * MS);
        held.pop();
        fixture.clock.settle();
        drop(granted(&mut first));
        drop(held);
        fixture.clock.advance(SECOND);
        drop(granted(&mut second));
        // Nothing of the first process waits, and its subscriptions end after 3 s.
        fixture.clock.advance(10 * SECOND);
        let count = fixture.work(1, 2, 1, 7 * MS);
        fixture.clock.advance(5 * SECOND);
        count.load(Ordering::Relaxed)
    };
    let (same, mixed) = (served([2, 2]), served([2, 1]));
    assert!(2 * mixed > same, "{mixed} holds, and {same} without a mix");
}

#[test]
fn single_attempt_asks_the_nodes_after_a_hand_off() {
    let fixture = Fixture::near(1);
    let mut held = fixture.fill(0, 2);
    let mut first = fixture.begin(fixture.request(0, 2).wait(MINUTE));
    let mut second = Box::pin(fixture.request(0, 2).wait(MINUTE).into_future());
    assert!(poll(&mut second).is_pending());
    fixture.clock.advance(10 * MS);
    held.pop();
    fixture.clock.settle();
    let _handed = granted(&mut first);
    // The second one is the first now, and not polled yet.
    let mut single = Box::pin(fixture.request(0, 2).into_future());
    assert!(poll(&mut single).is_pending());
    drop(held);
    fixture.clock.settle();
    drop(second);
    let mut result = poll(&mut single);
    for _ in 0..10 {
        fixture.clock.settle();
        if result.is_pending() {
            result = poll(&mut single);
        }
    }
    let Poll::Ready(result) = result else { panic!("the nodes answer at once") };
    assert!(result.is_ok(), "a slot is free: {result:?}");
}

#[test]
fn requests_for_one_slot_itself_are_served_in_the_process() {
    let fixture = Fixture::near(1);
    let slot = fixture.attempt(0, 1).unwrap().resource().clone();
    fixture.clock.settle();
    let request = || fixture.processes[0].lock(slot.clone()).wait(MINUTE);
    let held = fixture.begin(request()).take().unwrap().unwrap();
    let mut waiting = fixture.begin(request());
    fixture.nodes.stop([0, 1, 2]);

    drop(held);
    fixture.clock.settle();

    drop(granted(&mut waiting));
}

#[test]
fn release_that_is_seen_before_its_sender_continues_wakes() {
    type Hook = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;
    let clock = ManualClock::with_seed(1);
    let nodes = Nodes::new(1, &clock);
    let replica = nodes.replica("p0").redlock();
    let hook = Hook::default();
    let called = Arc::clone(&hook);
    let node = MockNode::over(&replica.nodes()[0], move |op, reply, inner| {
        let is_release = matches!(op, Op::Release(_));
        inner.send(op, reply);
        let hook = called.lock().unwrap().take_if(|_| is_release);
        if let Some(hook) = hook {
            hook();
        }
    });
    let builder = Redlock::builder().clock(clock.clone()).spawner(clock.spawner());
    let redlock = with_nodes(builder.owner("p0"), [node]).build().unwrap();
    let request = || redlock.lock("export").slots(1);
    let mut task = clock.spawn(request().into_future());
    clock.settle();
    let held = task.take().unwrap().unwrap();
    clock.advance(150 * MS);
    let waiting = Arc::new(Mutex::new(Box::pin(request().wait(MINUTE).into_future())));
    let poll = move || poll(&mut *waiting.lock().unwrap());
    for _ in 0..100 {
        assert!(poll().is_pending());
        clock.advance(MS);
    }
    // As on another thread: the task runs once the node has sent its message.
    let (granted, early) = (Arc::<Mutex<Option<_>>>::default(), poll.clone());
    let seen = Arc::clone(&granted);
    *hook.lock().unwrap() = Some(Box::new(move || *seen.lock().unwrap() = Some(early())));
    drop(held);
    let mut result = granted.lock().unwrap().take().expect("the release was sent");
    for _ in 0..100 {
        clock.advance(MS);
        if result.is_pending() {
            result = poll();
        }
    }
    assert!(result.is_ready(), "the slot is free for 100 ms");
}

/// The messages to one process about releases, until they are delivered.
#[derive(Clone, Default)]
struct Inbox(Arc<Mutex<Vec<(Hints, Hint)>>>);

impl Inbox {
    /// A node whose messages arrive here.
    fn node(&self, inner: &Arc<dyn Node>) -> MockNode {
        let inbox = Arc::clone(&self.0);
        MockNode::forwarding(inner).with_hints(move |_, hints| {
            let inbox = Arc::clone(&inbox);
            Hints::from_fn(move |hint| inbox.lock().unwrap().push((hints.clone(), hint)))
        })
    }

    fn deliver(&self) {
        let messages = std::mem::take(&mut *self.0.lock().unwrap());
        for (hints, hint) in messages {
            hints.send(hint);
        }
    }

    /// Drops the messages about releases.
    fn lose_releases(&self) {
        self.0.lock().unwrap().retain(|(_, hint)| !matches!(hint, Hint::Freed { .. }));
    }
}

#[test]
fn release_before_the_subscription_outlasts_a_refused_attempt() {
    let fixture = Fixture::near(2);
    let inbox = Inbox::default();
    let replica = fixture.nodes.replica("waiter").redlock();
    let builder = Redlock::builder().clock(fixture.clock.clone()).spawner(fixture.clock.spawner());
    let nodes = replica.nodes().iter().map(|node| inbox.node(node));
    let redlock = with_nodes(builder.owner("waiter"), nodes).build().unwrap();
    let held = fixture.fill(0, 2);
    let (tried, missed): (Vec<_>, Vec<_>) =
        held.into_iter().partition(|lock| lock.slot() == Some(0));
    let slot = tried[0].resource().clone();
    let mut waiting = Box::pin(redlock.lock("export").slots(2).wait(MINUTE).into_future());
    let mut poll_waiting = || {
        let polled = poll(&mut waiting);
        fixture.clock.settle();
        polled
    };
    for _ in 0..5 {
        assert!(poll_waiting().is_pending());
    }
    // The nodes do not know yet that the process listens.
    drop(missed);
    fixture.clock.settle();
    inbox.lose_releases();
    inbox.deliver();
    drop(tried);
    fixture.clock.settle();
    inbox.deliver();
    let _faster = fixture.begin(fixture.processes[1].lock(slot)).take().unwrap().unwrap();
    let mut result = poll_waiting();
    // Much less than any pause without a message.
    for _ in 0..50 {
        fixture.clock.advance(MS);
        inbox.deliver();
        if result.is_pending() {
            result = poll_waiting();
        }
    }
    let Poll::Ready(result) = result else { panic!("slot 1 is free") };
    assert_eq!(result.unwrap().slot(), Some(1));
}

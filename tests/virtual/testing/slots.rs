//! At most n holders of a name, in all processes together.

use std::{
    collections::BTreeMap,
    future::IntoFuture,
    sync::{Arc, Mutex},
    time::Duration,
};

use tower_redlock::{
    Lock, LockError, LockOptions, Redlock, Resource,
    error::SlotHolder,
    lock::LockEventKind,
    testing::{ManualClock, Nodes, Task},
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Three processes over three nodes.
struct Fleet {
    clock: ManualClock,
    nodes: Nodes,
    processes: Vec<Redlock>,
}

impl Fleet {
    fn new(processes: usize) -> Self {
        Self::with_seed(processes, 1)
    }

    fn with_seed(processes: usize, seed: u64) -> Self {
        let clock = ManualClock::with_seed(seed);
        let nodes = Nodes::new(3, &clock);
        let processes = (0..processes).map(|i| nodes.replica(format!("p{i}")).redlock()).collect();
        Self { clock, nodes, processes }
    }

    /// Makes a single attempt.
    fn attempt(&self, process: usize, slots: u32) -> Result<Lock, LockError> {
        self.begin(process, slots, Duration::ZERO).take().expect("the nodes answer at once")
    }

    fn begin(&self, process: usize, slots: u32, wait: Duration) -> Task<Result<Lock, LockError>> {
        let request = self.processes[process].lock("export").slots(slots).wait(wait);
        let task = self.clock.spawn(request.into_future());
        self.clock.settle();
        task
    }
}

fn number(lock: &Lock) -> u32 {
    lock.slot().expect("a slot")
}

fn full(result: Result<Lock, LockError>) -> Box<[SlotHolder]> {
    match result.expect_err("all slots are held").root() {
        LockError::Held { slots, .. } => slots.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_holder_has_a_number_of_its_own() {
    let fleet = Fleet::new(3);
    let held: Vec<_> = (0..5).map(|i| fleet.attempt(i % 3, 5).unwrap()).collect();

    let mut numbers: Vec<_> = held.iter().map(number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
    assert_eq!(held[0].context().slot(), held[0].slot());

    let holders = full(fleet.attempt(1, 5));
    assert_eq!(holders.len(), 5);
    for (i, lock) in held.iter().enumerate() {
        let holder = &holders[usize::try_from(number(lock)).unwrap()];
        assert_eq!(holder.slot, number(lock));
        assert_eq!(holder.owner.as_deref(), Some(&*format!("p{}", i % 3)));
        assert!(holder.expires_in.is_some());
    }
}

#[test]
fn full_set_says_when_the_first_slot_ends() {
    let fleet = Fleet::new(2);
    let request = |ttl| fleet.processes[0].lock("export").slots(2).ttl(ttl).auto_extend(false);
    let acquire = |ttl| {
        let mut task = fleet.clock.spawn(request(ttl).into_future());
        fleet.clock.settle();
        task.take().unwrap().unwrap()
    };
    let _held = (acquire(9 * SECOND), acquire(4 * SECOND));

    let refused = fleet.attempt(1, 2).unwrap_err();

    let LockError::Held { expires_in, owner, retry_after, .. } = refused else {
        panic!("{refused:?}");
    };
    let expires_in = expires_in.unwrap();
    assert!(expires_in >= 4 * SECOND && expires_in < 5 * SECOND, "{expires_in:?}");
    assert_eq!(owner.as_deref(), Some("p0"));
    assert!(retry_after.is_some());
}

#[test]
fn release_of_any_slot_wakes_a_waiter() {
    for released in 0..3 {
        let fleet = Fleet::new(3);
        let mut held: BTreeMap<_, _> = (0..3)
            .map(|i| fleet.attempt(i, 3).unwrap())
            .map(|lock| (number(&lock), lock))
            .collect();
        let mut waiting = fleet.begin(0, 3, 60 * SECOND);
        fleet.clock.advance(10 * MS);
        assert!(!waiting.is_finished());

        drop(held.remove(&released));
        // Much less than any pause without a message.
        fleet.clock.advance(20 * MS);

        let lock = waiting.take().expect("it was woken").unwrap();
        assert_eq!(number(&lock), released);
    }
}

#[test]
fn process_prefers_the_slot_it_had() {
    let fleet = Fleet::new(2);
    for _ in 0..20 {
        let first = fleet.attempt(0, 8).unwrap();
        let other = fleet.attempt(1, 8).unwrap();
        let (mine, theirs) = (number(&first), number(&other));
        drop((first, other));
        fleet.clock.settle();

        let (second, again) = (fleet.attempt(1, 8).unwrap(), fleet.attempt(0, 8).unwrap());
        assert_eq!((number(&again), number(&second)), (mine, theirs));
    }
}

#[test]
fn waiting_requests_of_a_process_are_served_in_order() {
    let fleet = Fleet::new(2);
    let mut held = vec![fleet.attempt(1, 2).unwrap(), fleet.attempt(1, 2).unwrap()];
    let served = Arc::new(Mutex::new(Vec::new()));
    let waiting: Vec<_> = (0..6)
        .map(|i| {
            let (served, redlock) = (Arc::clone(&served), fleet.processes[0].clone());
            let clock = fleet.clock.clone();
            let task = fleet.clock.spawn(async move {
                let lock = redlock.lock("export").slots(2).wait(60 * SECOND).await.unwrap();
                served.lock().unwrap().push(i);
                clock.sleep(5 * MS).await;
                drop(lock);
            });
            fleet.clock.settle();
            task
        })
        .collect();

    held.clear();
    // Without a wait, a request does not overtake those that wait.
    assert!(fleet.attempt(0, 2).is_err());
    fleet.clock.advance(SECOND);

    assert!(waiting.iter().all(Task::is_finished));
    assert_eq!(*served.lock().unwrap(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn released_slots_are_handed_on_within_the_process() {
    let fleet = Fleet::new(1);
    let mut held = vec![fleet.attempt(0, 2).unwrap(), fleet.attempt(0, 2).unwrap()];
    let tokens: Vec<_> = held.iter().map(Lock::fencing_token).collect();
    let mut waiting: Vec<_> = (0..4).map(|_| fleet.begin(0, 2, 60 * SECOND)).collect();
    fleet.clock.advance(10 * MS);
    fleet.nodes.stop([0, 1, 2]);

    for _ in 0..4 {
        let slot = number(&held[0]);
        drop(held.remove(0));
        fleet.clock.settle();
        let next = waiting.remove(0).take().expect("the first one in line is next").unwrap();
        assert!(next.is_valid() && number(&next) == slot);
        assert!(tokens.iter().all(|token| next.fencing_token() > *token));
        held.push(next);
    }
}

#[test]
fn slots_return_to_other_processes_in_time() {
    let fleet = Fleet::new(2);
    let work = |process: usize| {
        let (redlock, clock) = (fleet.processes[process].clone(), fleet.clock.clone());
        async move {
            loop {
                let lock = redlock.lock("export").slots(2).wait(60 * SECOND).await.unwrap();
                clock.sleep(MS).await;
                drop(lock);
            }
        }
    };
    let _busy: Vec<_> = (0..40).map(|_| fleet.clock.spawn(work(0))).collect();
    fleet.clock.advance(SECOND);

    let mut other = fleet.begin(1, 2, 60 * SECOND);
    // A hand-off may follow for 100 ms after a grant of the servers.
    fleet.clock.advance(200 * MS);

    assert!(other.take().expect("its turn has come").is_ok());
}

#[test]
fn slot_beyond_its_number_is_not_handed_to_a_request() {
    let fleet = Fleet::new(1);
    let held: Vec<_> = (0..4).map(|_| fleet.attempt(0, 4).unwrap()).collect();
    let mut waiting = fleet.begin(0, 2, 60 * SECOND);
    let (above, below): (Vec<_>, Vec<_>) = held.into_iter().partition(|lock| number(lock) >= 2);

    drop(above);
    fleet.clock.advance(SECOND);
    assert!(!waiting.is_finished());
    drop(below);
    fleet.clock.advance(20 * MS);

    assert!(number(&waiting.take().expect("it was woken").unwrap()) < 2);
}

#[test]
fn slot_handed_to_a_request_that_left_is_released() {
    for leaves in [0, 1] {
        let fleet = Fleet::new(1);
        let held = fleet.attempt(0, 1).unwrap();
        let mut waiting: Vec<_> = (0..2).map(|_| fleet.begin(0, 1, 60 * SECOND)).collect();
        fleet.clock.advance(10 * MS);

        // It is woken, and dropped before it is polled.
        drop(held);
        drop(waiting.remove(leaves));
        fleet.clock.advance(20 * MS);

        drop(waiting.remove(0).take().expect("it is next").unwrap());
        fleet.clock.advance(20 * MS);
        assert_eq!(fleet.nodes.key_counts(), [0, 0, 0]);
        assert!(fleet.attempt(0, 1).is_ok());
    }
}

/// What the tasks of a fleet do at this moment.
#[derive(Default)]
struct Holders {
    now: BTreeMap<u32, usize>,
    most: usize,
    served: BTreeMap<usize, u32>,
}

/// Tasks of each process hold slots again and again. Returns the greatest number of holders at a
/// time, and how often each process was served.
fn contend(fleet: &Fleet, counts: &[u32], seconds: u64) -> (usize, Vec<u32>) {
    let holders = Arc::<Mutex<Holders>>::default();
    let mut tasks = Vec::new();
    for (process, redlock) in fleet.processes.iter().enumerate() {
        let slots = counts[process % counts.len()];
        for task in 0..4_u64 {
            let (redlock, holders) = (redlock.clone(), Arc::clone(&holders));
            let clock = fleet.clock.clone();
            tasks.push(fleet.clock.spawn(async move {
                loop {
                    let lock =
                        redlock.lock("export").slots(slots).wait(600 * SECOND).await.unwrap();
                    {
                        let mut holders = holders.lock().unwrap();
                        let former = holders.now.insert(number(&lock), process);
                        assert_eq!(former, None, "two holders of slot {}", number(&lock));
                        holders.most = holders.most.max(holders.now.len());
                        *holders.served.entry(process).or_default() += 1;
                    }
                    clock.sleep(MS * u32::try_from(3 + 2 * task).unwrap()).await;
                    holders.lock().unwrap().now.remove(&number(&lock));
                    drop(lock);
                }
            }));
        }
    }
    fleet.clock.advance(SECOND * u32::try_from(seconds).unwrap());
    let holders = holders.lock().unwrap();
    (holders.most, holders.served.values().copied().collect())
}

#[test]
fn holders_never_exceed_the_slots() {
    for seed in 0..4 {
        let fleet = Fleet::with_seed(3, seed);

        let (most, served) = contend(&fleet, &[5], 4);

        assert_eq!(most, 5, "seed {seed}: all are used, and no more");
        // A hold lasts 6 ms at the mean, so the slots have room for 3,333 holds.
        assert!(served.iter().sum::<u32>() > 2_500, "seed {seed}: {served:?}");
        let (least, best) = (served.iter().min().unwrap(), served.iter().max().unwrap());
        assert!(2 * least > *best, "seed {seed}: {served:?}");
    }
}

#[test]
fn changed_number_allows_at_most_the_greater_one() {
    for seed in 0..4 {
        let fleet = Fleet::with_seed(3, seed);

        let (most, _) = contend(&fleet, &[5, 3], 4);

        assert!((3..=5).contains(&most), "seed {seed}: {most}");
    }
}

#[test]
fn crashed_holder_frees_its_slot_after_the_ttl() {
    let fleet = Fleet::new(2);
    let request = |process: usize| fleet.processes[process].lock("export").slots(2);
    let _other = fleet.attempt(0, 2).unwrap();
    let mut crashed =
        fleet.clock.spawn(request(0).ttl(2 * SECOND).auto_extend(false).into_future());
    fleet.clock.settle();
    std::mem::forget(crashed.take().unwrap().unwrap());

    let mut waiting = fleet.begin(1, 2, 60 * SECOND);
    fleet.clock.advance(SECOND);
    assert!(!waiting.is_finished());
    fleet.clock.advance(2 * SECOND);

    assert!(waiting.take().expect("its key has expired").is_ok());
}

#[test]
fn wait_ends_with_all_holders() {
    let fleet = Fleet::new(2);
    let _held = (fleet.attempt(0, 2).unwrap(), fleet.attempt(0, 2).unwrap());
    let mut waiting = fleet.begin(1, 2, 3 * SECOND);
    let mut second = fleet.begin(1, 2, 2 * SECOND);

    fleet.clock.advance(4 * SECOND);

    for task in [&mut waiting, &mut second] {
        let error = task.take().expect("its wait is over").unwrap_err();
        assert!(matches!(error, LockError::WaitTimedOut { .. }), "{error:?}");
        assert_eq!(full(Err(error)).len(), 2);
    }
}

#[test]
fn slots_outlive_a_node() {
    let fleet = Fleet::new(2);
    fleet.nodes.stop([1]);
    let first = fleet.attempt(0, 2).unwrap();
    let second = fleet.attempt(1, 2).unwrap();
    assert_ne!(number(&first), number(&second));
    let mut waiting = fleet.begin(1, 2, 60 * SECOND);
    fleet.clock.advance(100 * MS);

    drop(first);
    fleet.clock.advance(2 * SECOND);

    assert!(waiting.take().expect("a majority answers").is_ok());
}

#[test]
fn lock_of_the_name_is_another_lock() {
    let fleet = Fleet::new(1);
    let slot = fleet.attempt(0, 1).unwrap();
    let mut lock = fleet.clock.spawn(fleet.processes[0].lock("export").into_future());
    fleet.clock.settle();

    let lock = lock.take().unwrap().unwrap();

    assert_eq!(lock.slot(), None);
    assert_eq!(slot.resource(), &Resource::of_slot("export", 0).unwrap());
    let mut same = fleet.clock.spawn(fleet.processes[0].lock(slot.resource()).into_future());
    fleet.clock.settle();
    assert!(matches!(same.take(), Some(Err(LockError::Held { .. }))), "a slot is a lock");
}

#[test]
fn events_show_the_wait_and_the_refusal() {
    let fleet = Fleet::new(2);
    let mut events = fleet.processes[1].events();
    let held = fleet.attempt(0, 1).unwrap();
    full(fleet.attempt(1, 1));
    let mut waiting = fleet.begin(1, 1, 60 * SECOND);
    drop(held);
    fleet.clock.advance(SECOND);
    assert!(waiting.take().unwrap().is_ok());

    let mut kinds = Vec::new();
    while let Ok(event) = events.try_recv() {
        match event.kind {
            LockEventKind::Refused { resource, .. } => kinds.push(format!("refused {resource}")),
            LockEventKind::Granted { resource, .. } => kinds.push(format!("granted {resource}")),
            _ => {}
        }
    }

    // The attempts at single slots are no events of their own.
    assert_eq!(kinds, ["refused slot:*1:export", "granted slot:0:export"]);
}

/// Requests of one process for different numbers of slots.
mod different_numbers {
    use super::*;

    /// Returns the slots that the process holds, by their numbers.
    fn fill(fleet: &Fleet, slots: u32) -> BTreeMap<u32, Lock> {
        let held = (0..slots).map(|_| fleet.attempt(0, slots).unwrap());
        held.map(|lock| (number(&lock), lock)).collect()
    }

    #[test]
    fn request_for_one_slot_blocks_no_request_for_five() {
        let fleet = Fleet::new(2);
        let _held = fleet.attempt(1, 1).unwrap();
        let waiting = fleet.begin(0, 1, 60 * SECOND);

        let mut patient = fleet.begin(0, 5, 60 * SECOND);
        let single = fleet.attempt(0, 5);

        assert!(number(&patient.take().expect("four slots are free").unwrap()) > 0);
        assert!(number(&single.unwrap()) > 0);
        assert!(!waiting.is_finished());
    }

    #[test]
    fn released_slot_is_handed_to_a_line_that_has_it() {
        let fleet = Fleet::new(1);
        let mut held = fill(&fleet, 5);
        let mut for_one = fleet.begin(0, 1, 60 * SECOND);
        let mut for_five = fleet.begin(0, 5, 60 * SECOND);
        fleet.clock.advance(10 * MS);
        fleet.nodes.stop([0, 1, 2]);

        drop(held.remove(&3));
        fleet.clock.settle();
        let lock = for_five.take().expect("slot 3 is one of five").unwrap();
        assert_eq!(number(&lock), 3);
        assert!(!for_one.is_finished());

        drop(held.remove(&0));
        fleet.clock.settle();
        assert_eq!(number(&for_one.take().expect("it is the only request").unwrap()), 0);
    }

    #[test]
    fn released_slot_is_handed_to_the_oldest_request() {
        for counts in [[1, 5], [5, 1]] {
            let fleet = Fleet::new(1);
            let mut held = fill(&fleet, 5);
            let mut waiting = Vec::new();
            for count in counts {
                waiting.push(fleet.begin(0, count, 60 * SECOND));
                fleet.clock.advance(5 * MS);
            }
            fleet.nodes.stop([0, 1, 2]);

            for mut request in waiting {
                let lock = held.remove(&0).expect("slot 0 is held");
                drop(lock);
                fleet.clock.settle();
                let lock = request.take().expect("the oldest request is next").unwrap();
                held.insert(number(&lock), lock);
            }
        }
    }

    #[test]
    fn snapshot_names_each_line() {
        let fleet = Fleet::new(1);
        let _held = fill(&fleet, 2);
        let _waiting = [1, 2, 2].map(|slots| fleet.begin(0, slots, 60 * SECOND));
        fleet.clock.advance(10 * MS);

        let waiting = fleet.processes[0].snapshot().waiting;

        let lines: Vec<_> = waiting.iter().map(|line| (&*line.name, line.requests)).collect();
        assert_eq!(lines, [("slot:*1:export", 1), ("slot:*2:export", 2)]);
        assert_eq!(Resource::display_name(lines[0].0), "export, any slot of 1");
    }
}

#[test]
fn bad_slots_are_refused() {
    let redlock = Redlock::embedded();
    let refusal = |request: tower_redlock::LockRequest| {
        let clock = ManualClock::new();
        let mut task = clock.spawn(request.into_future());
        clock.settle();
        task.take().expect("nothing is sent").unwrap_err().to_string()
    };

    for (request, reason) in [
        (redlock.lock("x").slots(0), "slots is zero"),
        (redlock.lock("x").slots(257), "slots is 257, above 256"),
        (redlock.lock(["x", "y"]).slots(2), "one name, not of a set"),
        (redlock.lock("x").slots(2).linger(SECOND), "a slot is released at the end"),
        (redlock.lock("x".repeat(510)).slots(2), "512"),
        (redlock.lock("slot:0:x"), "slot:"),
    ] {
        let refused = refusal(request);
        assert!(refused.contains(reason), "{refused}");
    }
    let error = Redlock::builder()
        .nodes(["redis://h"])
        .options(LockOptions::new().slots(2))
        .build()
        .unwrap_err();
    assert!(error.to_string().contains("slots"), "{error}");
    assert!(Resource::of_slot("x", 255).is_ok() && Resource::of_slot("x", 256).is_err());
}

/// A process that leaves its turn to others must not repeat a failed read at once.
#[test]
fn outage_during_turns_is_waited_out() {
    let fleet = Fleet::new(2);
    let served = Arc::new(Mutex::new(0_u32));
    let tasks: Vec<_> = (0..4)
        .map(|i| {
            let (served, redlock) = (Arc::clone(&served), fleet.processes[i % 2].clone());
            let clock = fleet.clock.clone();
            fleet.clock.spawn(async move {
                loop {
                    let lock = redlock.lock("export").slots(1).wait(600 * SECOND).await.unwrap();
                    *served.lock().unwrap() += 1;
                    clock.sleep(6 * MS).await;
                    drop(lock);
                }
            })
        })
        .collect();

    for _ in 0..30 {
        fleet.clock.advance(37 * MS);
        fleet.nodes.stop([0, 1, 2]);
        fleet.clock.advance(100 * MS);
        fleet.nodes.start([0, 1, 2]);
    }
    let before = *served.lock().unwrap();
    fleet.clock.advance(SECOND);

    assert!(tasks.iter().all(|task| !task.is_finished()));
    assert!(*served.lock().unwrap() > before + 50, "{before}");
}

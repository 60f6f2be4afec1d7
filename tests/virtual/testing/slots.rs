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
    testing::{ManualClock, Task},
};

use crate::durations::{MINUTE, MS, SECOND};
use crate::fixture::{Acquiring, Fixture, granted, is_held};

/// Starts a request for a slot.
fn begin<const N: usize>(
    fixture: &Fixture<N>,
    process: usize,
    slots: u32,
    wait: Duration,
) -> Acquiring {
    fixture.spawn(fixture.request(process).slots(slots).wait(wait))
}

/// Makes a single attempt at a slot.
fn attempt<const N: usize>(
    fixture: &Fixture<N>,
    process: usize,
    slots: u32,
) -> Result<Lock, LockError> {
    fixture.done(fixture.request(process).slots(slots))
}

fn number(lock: &Lock) -> u32 {
    lock.slot().expect("the lock is of a slot")
}

fn full(result: Result<Lock, LockError>) -> Box<[SlotHolder]> {
    match result.expect_err("all slots are held").root() {
        LockError::Held { slots, .. } => slots.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_holder_has_a_number_of_its_own() {
    let fixture = Fixture::<3>::numbered(1);
    let held: Vec<_> = (0..5).map(|i| attempt(&fixture, i % 3, 5).unwrap()).collect();
    let mut numbers: Vec<_> = held.iter().map(number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
    assert_eq!(held[0].context().slot(), held[0].slot());
    let holders = full(attempt(&fixture, 1, 5));
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
    let fixture = Fixture::<2>::numbered(1);
    let request = |ttl| fixture.request(0).slots(2).ttl(ttl).auto_extend(false);
    let acquire = |ttl| fixture.done(request(ttl)).unwrap();
    let _held = (acquire(9 * SECOND), acquire(4 * SECOND));

    let refused = attempt(&fixture, 1, 2).unwrap_err();

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
        let fixture = Fixture::<3>::numbered(1);
        let mut held: BTreeMap<_, _> = (0..3)
            .map(|i| attempt(&fixture, i, 3).unwrap())
            .map(|lock| (number(&lock), lock))
            .collect();
        let mut waiting = begin(&fixture, 0, 3, MINUTE);
        fixture.clock.advance(10 * MS);
        assert!(!waiting.is_finished());
        drop(held.remove(&released));
        // Much less than any pause without a message.
        fixture.clock.advance(20 * MS);
        let lock = granted(&mut waiting);
        assert_eq!(number(&lock), released);
    }
}

#[test]
fn process_prefers_the_slot_it_had() {
    let fixture = Fixture::<2>::numbered(1);
    for _ in 0..20 {
        let first = attempt(&fixture, 0, 8).unwrap();
        let other = attempt(&fixture, 1, 8).unwrap();
        let (mine, theirs) = (number(&first), number(&other));
        drop((first, other));
        fixture.clock.settle();

        let (second, again) = (attempt(&fixture, 1, 8).unwrap(), attempt(&fixture, 0, 8).unwrap());
        assert_eq!((number(&again), number(&second)), (mine, theirs));
    }
}

#[test]
fn waiting_requests_of_a_process_are_served_in_order() {
    let fixture = Fixture::<2>::numbered(1);
    let mut held = vec![attempt(&fixture, 1, 2).unwrap(), attempt(&fixture, 1, 2).unwrap()];
    let served = Arc::new(Mutex::new(Vec::new()));
    let waiting: Vec<_> = (0..6)
        .map(|i| {
            let (served, redlock) = (Arc::clone(&served), fixture.processes[0].clone());
            let clock = fixture.clock.clone();
            let task = fixture.clock.spawn(async move {
                let lock = redlock.lock("report").slots(2).wait(MINUTE).await.unwrap();
                served.lock().unwrap().push(i);
                clock.sleep(5 * MS).await;
                drop(lock);
            });
            fixture.clock.settle();
            task
        })
        .collect();
    held.clear();
    // Without a wait, a request does not overtake those that wait.
    assert!(attempt(&fixture, 0, 2).is_err());
    fixture.clock.advance(SECOND);
    assert!(waiting.iter().all(Task::is_finished));
    assert_eq!(*served.lock().unwrap(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn released_slots_are_handed_on_within_the_process() {
    let fixture = Fixture::<1>::numbered(1);
    let mut held = vec![attempt(&fixture, 0, 2).unwrap(), attempt(&fixture, 0, 2).unwrap()];
    let tokens: Vec<_> = held.iter().map(Lock::fencing_token).collect();
    let mut waiting: Vec<_> = (0..4).map(|_| begin(&fixture, 0, 2, MINUTE)).collect();
    fixture.clock.advance(10 * MS);
    fixture.nodes.stop([0, 1, 2]);

    for _ in 0..4 {
        let slot = number(&held[0]);
        drop(held.remove(0));
        fixture.clock.settle();
        let next = waiting.remove(0).take().expect("the first one in line is next").unwrap();
        assert!(next.is_valid() && number(&next) == slot);
        assert!(tokens.iter().all(|token| next.fencing_token() > *token));
        held.push(next);
    }
}

#[test]
fn slots_return_to_other_processes_in_time() {
    let fixture = Fixture::<2>::numbered(1);
    let work = |process: usize| {
        let (redlock, clock) = (fixture.processes[process].clone(), fixture.clock.clone());
        async move {
            loop {
                let lock = redlock.lock("report").slots(2).wait(MINUTE).await.unwrap();
                clock.sleep(MS).await;
                drop(lock);
            }
        }
    };
    let _busy: Vec<_> = (0..40).map(|_| fixture.clock.spawn(work(0))).collect();
    fixture.clock.advance(SECOND);

    let mut other = begin(&fixture, 1, 2, MINUTE);
    // A hand-off may follow for 100 ms after a grant of the servers.
    fixture.clock.advance(200 * MS);

    drop(granted(&mut other));
}

#[test]
fn slot_beyond_its_number_is_not_handed_to_a_request() {
    let fixture = Fixture::<1>::numbered(1);
    let held: Vec<_> = (0..4).map(|_| attempt(&fixture, 0, 4).unwrap()).collect();
    let mut waiting = begin(&fixture, 0, 2, MINUTE);
    let (above, below): (Vec<_>, Vec<_>) = held.into_iter().partition(|lock| number(lock) >= 2);
    drop(above);
    fixture.clock.advance(SECOND);
    assert!(!waiting.is_finished());
    drop(below);
    fixture.clock.advance(20 * MS);
    assert!(number(&granted(&mut waiting)) < 2);
}

#[test]
fn slot_handed_to_a_request_that_left_is_released() {
    for leaves in [0, 1] {
        let fixture = Fixture::<1>::numbered(1);
        let held = attempt(&fixture, 0, 1).unwrap();
        let mut waiting: Vec<_> = (0..2).map(|_| begin(&fixture, 0, 1, MINUTE)).collect();
        fixture.clock.advance(10 * MS);

        // It is woken, and dropped before it is polled.
        drop(held);
        drop(waiting.remove(leaves));
        fixture.clock.advance(20 * MS);

        drop(waiting.remove(0).take().expect("the next waiter is granted the slot").unwrap());
        fixture.clock.advance(20 * MS);
        assert_eq!(fixture.nodes.key_counts(), [0, 0, 0]);
        assert!(attempt(&fixture, 0, 1).is_ok());
    }
}

/// What the tasks of a fixture do at this moment.
#[derive(Default)]
struct Holders {
    now: BTreeMap<u32, usize>,
    most: usize,
    served: BTreeMap<usize, u32>,
}

/// Tasks of each process hold slots again and again. Returns the greatest number of holders at a
/// time, and how often each process was served.
fn contend(fixture: &Fixture<3>, counts: &[u32], seconds: u64) -> (usize, Vec<u32>) {
    let holders = Arc::<Mutex<Holders>>::default();
    let mut tasks = Vec::new();
    for (process, redlock) in fixture.processes.iter().enumerate() {
        let slots = counts[process % counts.len()];
        for task in 0..4_u64 {
            let (redlock, holders) = (redlock.clone(), Arc::clone(&holders));
            let clock = fixture.clock.clone();
            tasks.push(fixture.clock.spawn(async move {
                loop {
                    let lock =
                        redlock.lock("report").slots(slots).wait(600 * SECOND).await.unwrap();
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
    fixture.clock.advance(SECOND * u32::try_from(seconds).unwrap());
    let holders = holders.lock().unwrap();
    (holders.most, holders.served.values().copied().collect())
}

#[test]
fn holders_never_exceed_the_slots() {
    for seed in 0..4 {
        let fixture = Fixture::<3>::numbered(seed);

        let (most, served) = contend(&fixture, &[5], 4);

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
        let fixture = Fixture::<3>::numbered(seed);

        let (most, _) = contend(&fixture, &[5, 3], 4);

        assert!((3..=5).contains(&most), "seed {seed}: {most}");
    }
}

#[test]
fn crashed_holder_frees_its_slot_after_the_ttl() {
    let fixture = Fixture::<2>::numbered(1);
    let _other = attempt(&fixture, 0, 2).unwrap();
    let request = fixture.request(0).slots(2).ttl(2 * SECOND).auto_extend(false);
    std::mem::forget(fixture.done(request).unwrap());
    let mut waiting = begin(&fixture, 1, 2, MINUTE);
    fixture.clock.advance(SECOND);
    assert!(!waiting.is_finished());
    fixture.clock.advance(2 * SECOND);
    drop(granted(&mut waiting));
}

#[test]
fn wait_ends_with_all_holders() {
    let fixture = Fixture::<2>::numbered(1);
    let _held = (attempt(&fixture, 0, 2).unwrap(), attempt(&fixture, 0, 2).unwrap());
    let mut waiting = begin(&fixture, 1, 2, 3 * SECOND);
    let mut second = begin(&fixture, 1, 2, 2 * SECOND);

    fixture.clock.advance(4 * SECOND);

    for task in [&mut waiting, &mut second] {
        let error = task.take().expect("the wait is over").unwrap_err();
        assert!(matches!(error, LockError::WaitTimedOut { .. }), "{error:?}");
        assert_eq!(full(Err(error)).len(), 2);
    }
}

#[test]
fn slots_outlive_a_node() {
    let fixture = Fixture::<2>::numbered(1);
    fixture.nodes.stop([1]);
    let first = attempt(&fixture, 0, 2).unwrap();
    let second = attempt(&fixture, 1, 2).unwrap();
    assert_ne!(number(&first), number(&second));
    let mut waiting = begin(&fixture, 1, 2, MINUTE);
    fixture.clock.advance(100 * MS);
    drop(first);
    fixture.clock.advance(2 * SECOND);
    drop(granted(&mut waiting));
}

#[test]
fn lock_of_the_name_is_another_lock() {
    let fixture = Fixture::<1>::numbered(1);
    let slot = attempt(&fixture, 0, 1).unwrap();

    let lock = fixture.write(0).unwrap();

    assert_eq!(lock.slot(), None);
    assert_eq!(slot.resource(), &Resource::of_slot("report", 0).unwrap());
    let same = fixture.processes[0].lock(slot.resource());
    assert!(is_held(fixture.done(same)), "a slot is a lock");
}

#[test]
fn events_show_the_wait_and_the_refusal() {
    let fixture = Fixture::<2>::numbered(1);
    let mut events = fixture.processes[1].events();
    let held = attempt(&fixture, 0, 1).unwrap();
    full(attempt(&fixture, 1, 1));
    let mut waiting = begin(&fixture, 1, 1, MINUTE);
    drop(held);
    fixture.clock.advance(SECOND);
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
    assert_eq!(kinds, ["refused slot:*1:report", "granted slot:0:report"]);
}

/// Requests of one process for different numbers of slots.
mod different_numbers {
    use super::*;

    /// Returns the slots that the process holds, by their numbers.
    fn fill<const N: usize>(fixture: &Fixture<N>, slots: u32) -> BTreeMap<u32, Lock> {
        let held = (0..slots).map(|_| attempt(fixture, 0, slots).unwrap());
        held.map(|lock| (number(&lock), lock)).collect()
    }

    #[test]
    fn request_for_one_slot_blocks_no_request_for_five() {
        let fixture = Fixture::<2>::numbered(1);
        let _held = attempt(&fixture, 1, 1).unwrap();
        let waiting = begin(&fixture, 0, 1, MINUTE);

        let mut patient = begin(&fixture, 0, 5, MINUTE);
        let single = attempt(&fixture, 0, 5);

        assert!(number(&granted(&mut patient)) > 0);
        assert!(number(&single.unwrap()) > 0);
        assert!(!waiting.is_finished());
    }

    #[test]
    fn released_slot_is_handed_to_a_line_that_has_it() {
        let fixture = Fixture::<1>::numbered(1);
        let mut held = fill(&fixture, 5);
        let mut for_one = begin(&fixture, 0, 1, MINUTE);
        let mut for_five = begin(&fixture, 0, 5, MINUTE);
        fixture.clock.advance(10 * MS);
        fixture.nodes.stop([0, 1, 2]);
        drop(held.remove(&3));
        fixture.clock.settle();
        let lock = granted(&mut for_five);
        assert_eq!(number(&lock), 3);
        assert!(!for_one.is_finished());
        drop(held.remove(&0));
        fixture.clock.settle();
        assert_eq!(number(&granted(&mut for_one)), 0);
    }

    #[test]
    fn released_slot_is_handed_to_the_oldest_request() {
        for counts in [[1, 5], [5, 1]] {
            let fixture = Fixture::<1>::numbered(1);
            let mut held = fill(&fixture, 5);
            let mut waiting = Vec::new();
            for count in counts {
                waiting.push(begin(&fixture, 0, count, MINUTE));
                fixture.clock.advance(5 * MS);
            }
            fixture.nodes.stop([0, 1, 2]);

            for mut request in waiting {
                let lock = held.remove(&0).expect("slot 0 is held");
                drop(lock);
                fixture.clock.settle();
                let lock = granted(&mut request);
                held.insert(number(&lock), lock);
            }
        }
    }

    #[test]
    fn snapshot_names_each_line() {
        let fixture = Fixture::<1>::numbered(1);
        let _held = fill(&fixture, 2);
        let _waiting = [1, 2, 2].map(|slots| begin(&fixture, 0, slots, MINUTE));
        fixture.clock.advance(10 * MS);

        let waiting = fixture.processes[0].snapshot().waiting;

        let lines: Vec<_> = waiting.iter().map(|line| (&*line.name, line.requests)).collect();
        assert_eq!(lines, [("slot:*1:report", 1), ("slot:*2:report", 2)]);
        assert_eq!(Resource::display_name(lines[0].0), "report, any slot of 1");
    }
}

#[test]
fn bad_slots_are_refused() {
    let redlock = Redlock::embedded();
    let refusal = |request: tower_redlock::LockRequest| {
        let clock = ManualClock::new();
        let mut task = clock.spawn(request.into_future());
        clock.settle();
        task.take().expect("the request ends without a message").unwrap_err().to_string()
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
    let fixture = Fixture::<2>::numbered(1);
    let served = Arc::new(Mutex::new(0_u32));
    let tasks: Vec<_> = (0..4)
        .map(|i| {
            let (served, redlock) = (Arc::clone(&served), fixture.processes[i % 2].clone());
            let clock = fixture.clock.clone();
            fixture.clock.spawn(async move {
                loop {
                    let lock = redlock.lock("report").slots(1).wait(600 * SECOND).await.unwrap();
                    *served.lock().unwrap() += 1;
                    clock.sleep(6 * MS).await;
                    drop(lock);
                }
            })
        })
        .collect();

    for _ in 0..30 {
        fixture.clock.advance(37 * MS);
        fixture.nodes.stop([0, 1, 2]);
        fixture.clock.advance(100 * MS);
        fixture.nodes.start([0, 1, 2]);
    }
    let before = *served.lock().unwrap();
    fixture.clock.advance(SECOND);

    assert!(tasks.iter().all(|task| !task.is_finished()));
    assert!(*served.lock().unwrap() > before + 50, "{before}");
}

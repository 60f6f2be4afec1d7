//! The queue of one manager: turns, handovers, permits.

use std::{future::IntoFuture, time::Duration};

use tower_redlock::{LockError, LockRequest, Redlock, Resource};
use tower_redlock_schedules::{Holders, Thread, World, explore, pass};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);

/// Only the turns, and the poll interval of a shutdown, take time.
const IDLE: Duration = Duration::from_millis(6);

fn patient(redlock: &Redlock, name: &str) -> LockRequest {
    redlock.lock(name).wait(LONG)
}

/// Starts threads that hold a name one after the other.
fn contend(world: &World, redlock: &Redlock, holders: &Holders, threads: usize) {
    for _ in 0..threads {
        let (redlock, holders) = (redlock.clone(), holders.clone());
        world.thread(move |thread| hold(&thread, patient(&redlock, "x"), &holders));
    }
}

fn hold(thread: &Thread, request: LockRequest, holders: &Holders) {
    let lock = thread.block_on(request.into_future()).expect("its turn");
    holders.granted(&lock);
    pass();
    drop(lock);
}

#[test]
fn each_waiter_gets_its_turn() {
    explore(|| {
        let world = World::new(1);
        let (redlock, holders) = (world.manager("a"), world.holders.clone());
        contend(&world, &redlock, &holders, 3);
        drop(redlock);
        world.run(IDLE);
    });
}

/// Each release goes to the nodes, and the turn passes to the next waiter.
#[test]
fn turns_pass_without_handoffs() {
    explore(|| {
        let world = World::new(1);
        let redlock = world.manager_with("a", |builder| builder.handoff_limit(0));
        contend(&world, &redlock, &world.holders, 3);
        drop(redlock);
        world.run(IDLE);
    });
}

#[test]
fn abandoned_waiters_lose_no_turn() {
    explore(|| {
        let world = World::new(1);
        let (redlock, holders) = (world.manager("a"), world.holders.clone());
        contend(&world, &redlock, &holders, 2);
        for _ in 0..2 {
            let (redlock, holders) = (redlock.clone(), holders.clone());
            world.thread(move |thread| {
                let request = patient(&redlock, "x").into_future();
                if let Some(lock) = thread.abandon(request) {
                    holders.granted(&lock.expect("granted"));
                }
            });
        }
        drop(redlock);
        world.run(IDLE);
    });
}

#[test]
fn single_attempts_get_verdicts() {
    explore(|| {
        let world = World::new(1);
        let (redlock, holders) = (world.manager("a"), world.holders.clone());
        contend(&world, &redlock, &holders, 1);
        for _ in 0..2 {
            let (redlock, holders) = (redlock.clone(), holders.clone());
            world.thread(move |thread| match thread.block_on(redlock.lock("x").into_future()) {
                Ok(lock) => holders.granted(&lock),
                Err(error) => assert!(matches!(error, LockError::Held { .. }), "{error}"),
            });
        }
        drop(redlock);
        world.run(IDLE);
    });
}

#[test]
fn opposite_sets_take_turns() {
    explore(|| {
        let world = World::new(1);
        let (redlock, holders) = (world.manager("a"), world.holders.clone());
        for names in [["x", "y"], ["y", "x"]] {
            let (redlock, holders) = (redlock.clone(), holders.clone());
            world.thread(move |thread| {
                let set = Resource::new(names).expect("a set");
                hold(&thread, redlock.lock(set).wait(LONG), &holders);
            });
        }
        let (other, of_y) = (redlock.clone(), holders.clone());
        world.thread(move |thread| hold(&thread, patient(&other, "y"), &of_y));
        contend(&world, &redlock, &holders, 1);
        drop(redlock);
        world.run(IDLE);
    });
}

#[test]
fn locks_end_on_other_threads() {
    explore(|| {
        let world = World::new(1);
        let (redlock, holders) = (world.manager("a"), world.holders.clone());
        contend(&world, &redlock, &holders, 1);
        for _ in 0..2 {
            let (redlock, holders) = (redlock.clone(), holders.clone());
            world.thread(move |thread| {
                let lock = thread.block_on(patient(&redlock, "x").into_future()).expect("its turn");
                holders.granted(&lock);
                let lost = lock.lost();
                thread.spawn(move |_| drop(lock));
                thread.block_on(lost);
            });
        }
        drop(redlock);
        world.run(IDLE);
    });
}

/// An extension runs concurrently with a release and its acknowledgement.
#[test]
fn releases_end_extensions() {
    explore(|| {
        let world = World::new(1);
        let (redlock, holders) = (world.manager("a"), world.holders.clone());
        contend(&world, &redlock, &holders, 1);
        world.thread(move |thread| {
            let lock = thread.block_on(patient(&redlock, "x").into_future()).expect("its turn");
            holders.granted(&lock);
            thread.abandon(lock.extend());
            let lost = lock.lost();
            thread.block_on(lock.release()).expect("an acknowledgement");
            thread.block_on(lost);
        });
        world.run(IDLE);
    });
}

#[test]
fn shutdown_ends_waiters() {
    explore(|| {
        let world = World::new(1);
        let (redlock, holders) = (world.manager("a"), world.holders.clone());
        for _ in 0..3 {
            let (redlock, holders) = (redlock.clone(), holders.clone());
            world.thread(move |thread| {
                match thread.block_on(patient(&redlock, "x").into_future()) {
                    Ok(lock) => holders.granted(&lock),
                    Err(error) => assert!(matches!(error, LockError::Closed), "{error}"),
                }
            });
        }
        world.thread(move |thread| {
            thread.block_on(redlock.shutdown());
            let late = thread.block_on(redlock.lock("x").into_future());
            assert!(matches!(late, Err(LockError::Closed)), "{late:?}");
        });
        world.run(IDLE);
    });
}

/// Only one attempt of a manager may be in flight at first, so the others wait for permits.
#[test]
fn permits_reach_all_names() {
    explore(|| {
        let world = World::new(1);
        let (redlock, holders) = (world.manager("a"), world.holders.clone());
        for name in ["u", "v", "w"] {
            let (redlock, holders) = (redlock.clone(), holders.clone());
            world.thread(move |thread| hold(&thread, patient(&redlock, name), &holders));
        }
        world.thread(move |thread| {
            thread.abandon(patient(&redlock, "x").into_future());
        });
        world.run(IDLE);
    });
}

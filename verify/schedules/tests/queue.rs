//! The queue of one manager: turns, handovers, permits.

use std::{future::IntoFuture, time::Duration};

use tower_redlock::{LockError, Resource};
use tower_redlock_schedules::{
    LONG, World, abandon, attempt, explore, hold, request, request_until_closed,
};

/// Only the turns, and the poll interval of a shutdown, take time.
const IDLE: Duration = Duration::from_millis(6);

#[test]
fn each_waiter_gets_its_turn() {
    explore(|| {
        let world = World::new(1);
        world.users(&world.manager("a"), 3, hold);
        world.run(IDLE);
    });
}

/// Each release goes to the nodes, and the turn passes to the next waiter.
#[test]
fn turns_pass_without_handoffs() {
    explore(|| {
        let world = World::new(1);
        let redlock = world.manager_with("a", |builder| builder.handoff_limit(0));
        world.users(&redlock, 3, hold);
        drop(redlock);
        world.run(IDLE);
    });
}

#[test]
fn abandoned_waiters_lose_no_turn() {
    explore(|| {
        let world = World::new(1);
        let redlock = world.manager("a");
        world.users(&redlock, 2, hold);
        world.users(&redlock, 2, abandon);
        drop(redlock);
        world.run(IDLE);
    });
}

#[test]
fn single_attempts_get_verdicts() {
    explore(|| {
        let world = World::new(1);
        let redlock = world.manager("a");
        world.users(&redlock, 1, hold);
        world.users(&redlock, 2, attempt);
        drop(redlock);
        world.run(IDLE);
    });
}

#[test]
fn opposite_sets_take_turns() {
    explore(|| {
        let world = World::new(1);
        let redlock = world.manager("a");
        for names in [&["x", "y"][..], &["y", "x"], &["y"]] {
            world.users(&redlock, 1, move |thread, redlock, holders| {
                let set = Resource::new(names.iter().copied()).expect("a set");
                thread.hold(redlock.lock(set).wait(LONG), holders);
            });
        }
        world.users(&redlock, 1, hold);
        drop(redlock);
        world.run(IDLE);
    });
}

#[test]
fn locks_end_on_other_threads() {
    explore(|| {
        let world = World::new(1);
        let redlock = world.manager("a");
        world.users(&redlock, 1, hold);
        world.users(&redlock, 2, |thread, redlock, holders| {
            let lock = thread.block_on(request(redlock).into_future()).expect("its turn");
            holders.granted(&lock);
            let lost = lock.lost();
            thread.spawn(move |_| drop(lock));
            thread.block_on(lost);
        });
        drop(redlock);
        world.run(IDLE);
    });
}

/// An extension runs concurrently with a release and its acknowledgement.
#[test]
fn releases_end_extensions() {
    explore(|| {
        let world = World::new(1);
        let redlock = world.manager("a");
        world.users(&redlock, 1, hold);
        world.users(&redlock, 1, |thread, redlock, holders| {
            let lock = thread.block_on(request(redlock).into_future()).expect("its turn");
            holders.granted(&lock);
            thread.abandon(lock.extend());
            let lost = lock.lost();
            thread.block_on(lock.release()).expect("an acknowledgement");
            thread.block_on(lost);
        });
        drop(redlock);
        world.run(IDLE);
    });
}

#[test]
fn shutdown_ends_waiters() {
    explore(|| {
        let world = World::new(1);
        let redlock = world.manager("a");
        world.users(&redlock, 3, request_until_closed);
        world.users(&redlock, 1, |thread, redlock, _| {
            thread.block_on(redlock.shutdown());
            let late = thread.block_on(redlock.lock("x").into_future());
            assert!(matches!(late, Err(LockError::Closed)), "{late:?}");
        });
        drop(redlock);
        world.run(IDLE);
    });
}

/// Only one attempt of a manager may be in flight at first, so the others wait for permits.
#[test]
fn permits_reach_all_names() {
    explore(|| {
        let world = World::new(1);
        let redlock = world.manager("a");
        for name in ["u", "v", "w"] {
            world.users(&redlock, 1, move |thread, redlock, holders| {
                thread.hold(redlock.lock(name).wait(LONG), holders);
            });
        }
        world.users(&redlock, 1, |thread, redlock, _| {
            thread.abandon(request(redlock).into_future());
        });
        drop(redlock);
        world.run(IDLE);
    });
}

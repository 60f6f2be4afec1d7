//! Shared locks: requests that join, leave and wait beside exclusive ones, in one manager or in two.

use std::{future::IntoFuture, time::Duration};

use tower_redlock::{Redlock, RedlockBuilder};
use tower_redlock_schedules::{Holders, Thread, World, explore, pass};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);
/// Far below the pause of a waiter that got no hint of a release, which is a second.
const IDLE: Duration = Duration::from_millis(120);

fn settings(builder: RedlockBuilder) -> RedlockBuilder {
    builder.retry_delay(Duration::from_millis(1)..=Duration::from_millis(2))
}

/// Holds the name one time after the other, shared or not.
fn hold(thread: &Thread, redlock: &Redlock, holders: &Holders, kinds: &[bool]) {
    for is_shared in kinds {
        let request = redlock.lock("x").wait(LONG);
        let request = if *is_shared { request.shared() } else { request };
        let lock = thread.block_on(request.into_future()).expect("its turn");
        holders.granted(&lock);
        pass();
        drop(lock);
    }
}

/// Starts threads of one manager, each with the kinds of its locks.
fn start(world: &World, redlock: &Redlock, threads: &[&'static [bool]]) {
    for &kinds in threads {
        let (redlock, holders) = (redlock.clone(), world.holders.clone());
        world.thread(move |thread| hold(&thread, &redlock, &holders, kinds));
    }
}

const READS: &[bool] = &[true, true];
const WRITES: &[bool] = &[false];

#[test]
fn readers_join_and_leave() {
    explore(|| {
        let world = World::new(1);
        start(&world, &world.manager_with("a", settings), &[READS, READS, READS]);
        world.run(IDLE);
    });
}

#[test]
fn writer_of_the_process_takes_its_turn() {
    explore(|| {
        let world = World::new(1);
        start(&world, &world.manager_with("a", settings), &[READS, READS, WRITES]);
        world.run(IDLE);
    });
}

#[test]
fn writer_of_another_process_takes_its_turn() {
    explore(|| {
        let world = World::new(1);
        start(&world, &world.manager_with("a", settings), &[READS, READS]);
        start(&world, &world.manager_with("b", settings), &[WRITES]);
        world.run(IDLE);
    });
}

#[test]
fn late_answers_lose_no_turn() {
    explore(|| {
        let world = World::late(1);
        start(&world, &world.manager_with("a", settings), &[READS, READS]);
        start(&world, &world.manager_with("b", settings), &[&[false, true]]);
        world.run(IDLE);
    });
}

#[test]
fn dropped_readers_keep_no_lease() {
    explore(|| {
        let world = World::new(1);
        let redlock = world.manager_with("a", settings);
        start(&world, &redlock, &[READS]);
        for _ in 0..2 {
            let (redlock, holders) = (redlock.clone(), world.holders.clone());
            world.thread(move |thread| {
                let request = redlock.lock("x").shared().wait(LONG).into_future();
                if let Some(lock) = thread.abandon(request) {
                    holders.granted(&lock.expect("granted"));
                }
            });
        }
        drop(redlock);
        start(&world, &world.manager_with("b", settings), &[WRITES]);
        world.run(IDLE);
    });
}

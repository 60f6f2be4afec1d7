//! Shared locks: requests that join, leave and wait beside exclusive ones, in one manager or in two.

use std::time::Duration;

use tower_redlock::{Redlock, RedlockBuilder};
use tower_redlock_schedules::{World, explore, request};

/// Far below the pause of a waiter that got no hint of a release, which is a second.
const IDLE: Duration = Duration::from_millis(120);

fn settings(builder: RedlockBuilder) -> RedlockBuilder {
    builder.retry_delay(Duration::from_millis(1)..=Duration::from_millis(2))
}

/// Starts threads of one manager, each of which holds the name one time after the other, shared or
/// not.
fn start(world: &World, redlock: &Redlock, threads: &[&'static [bool]]) {
    for &kinds in threads {
        world.users(redlock, 1, move |thread, redlock, holders| {
            for is_shared in kinds {
                let request = request(redlock);
                let request = if *is_shared { request.shared() } else { request };
                thread.hold(request, holders);
            }
        });
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
        world.users(&redlock, 2, |thread, redlock, holders| {
            thread.abandon_request(request(redlock).shared(), holders);
        });
        drop(redlock);
        start(&world, &world.manager_with("b", settings), &[WRITES]);
        world.run(IDLE);
    });
}

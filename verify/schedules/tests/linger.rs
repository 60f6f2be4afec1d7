//! Idle locks that stay with their process: reused, requested by others, released.

use std::{future::IntoFuture, time::Duration};

use tower_redlock::{Redlock, RedlockBuilder, Resource};
use tower_redlock_schedules::{LONG, World, attempt, explore, pass, request_until_closed};

const LINGER: Duration = Duration::from_millis(3);
/// Far below the pause of a waiter that got no hint of a release, which is a second.
const IDLE: Duration = Duration::from_millis(60);

fn settings(builder: RedlockBuilder) -> RedlockBuilder {
    builder.linger(LINGER).retry_delay(Duration::from_millis(1)..=Duration::from_millis(2))
}

/// Starts threads of one manager, each of which holds sets of names one after the other.
fn start(world: &World, redlock: &Redlock, threads: &[&'static [&'static [&'static str]]]) {
    for &sets in threads {
        world.users(redlock, 1, move |thread, redlock, holders| {
            for names in sets {
                let set = Resource::new(names.iter().copied()).expect("valid names");
                thread.hold(redlock.lock(set).wait(LONG), holders);
            }
        });
    }
}

const TWICE: &[&[&str]] = &[&["x"], &["x"]];

#[test]
fn next_requests_take_over() {
    explore(|| {
        let world = World::new(1);
        let redlock = world.manager_with("a", settings);
        start(&world, &redlock, &[TWICE, TWICE, TWICE]);
        drop(redlock);
        world.run(IDLE);
    });
}

#[test]
fn other_managers_ask() {
    explore(|| {
        let world = World::new(3);
        for owner in ["a", "b"] {
            let redlock = world.manager_with(owner, settings);
            start(&world, &redlock, &[TWICE]);
        }
        world.run(IDLE);
    });
}

#[test]
fn late_answers_lose_no_request() {
    explore(|| {
        let world = World::late(1);
        for owner in ["a", "b"] {
            let redlock = world.manager_with(owner, settings);
            start(&world, &redlock, &[TWICE]);
        }
        world.run(IDLE);
    });
}

#[test]
fn overlapping_sets_end_it() {
    explore(|| {
        let world = World::new(1);
        let redlock = world.manager_with("a", settings);
        start(&world, &redlock, &[&[&["x", "y"], &["x"]], &[&["y"], &["x", "y"]], &[&["x"]]]);
        drop(redlock);
        world.run(IDLE);
    });
}

#[test]
fn single_attempts_are_answered() {
    explore(|| {
        let world = World::new(1);
        let redlock = world.manager_with("a", settings);
        start(&world, &redlock, &[TWICE]);
        for redlock in [redlock, world.manager_with("b", settings)] {
            world.users(&redlock, 1, attempt);
        }
        world.run(IDLE);
    });
}

/// The idle time ends while the next request arrives, which no use by another client can refuse.
#[test]
fn own_end_refuses_no_attempt() {
    explore(|| {
        let world = World::new(1);
        let redlock = world.manager_with("a", settings);
        let (clock, holders) = (world.clock.clone(), world.holders.clone());
        world.thread(move |thread| {
            for _ in 0..3 {
                let lock = thread.block_on(redlock.lock("x").into_future()).expect("free");
                holders.granted(&lock);
                pass();
            }
        });
        world.thread(move |_| {
            for _ in 0..3 {
                pass();
                clock.leap(LINGER);
            }
        });
        world.run(IDLE);
    });
}

#[test]
fn shutdown_leaves_nothing() {
    explore(|| {
        let world = World::new(1);
        let redlock = world.manager_with("a", |builder| settings(builder).linger(LONG));
        world.users(&redlock, 2, request_until_closed);
        world.thread(move |thread| thread.block_on(redlock.shutdown()));
        world.run(Duration::from_millis(20));
    });
}

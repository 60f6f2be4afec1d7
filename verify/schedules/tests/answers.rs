//! Answers that arrive after the call, on another thread than the request's.

use std::{future::IntoFuture, time::Duration};

use tower_redlock::Redlock;
use tower_redlock_schedules::{Holders, Thread, World, explore, pass};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);

/// Far below the pause of a waiter that got no hint of a release, which is a second.
const IDLE: Duration = Duration::from_millis(120);

fn hold(thread: &Thread, redlock: &Redlock, holders: &Holders) {
    let request = redlock.lock("x").wait(LONG).into_future();
    let lock = thread.block_on(request).expect("its turn");
    holders.granted(&lock);
    pass();
    drop(lock);
}

#[test]
fn decisions_wake_requests() {
    explore(|| {
        let world = World::late(1);
        let redlock = world.manager("a");
        for _ in 0..2 {
            let (redlock, holders) = (redlock.clone(), world.holders.clone());
            world.thread(move |thread| hold(&thread, &redlock, &holders));
        }
        drop(redlock);
        world.run(Duration::from_millis(6));
    });
}

#[test]
fn abandoned_attempts_release_late_grants() {
    explore(|| {
        let world = World::late(3);
        let redlock = world.manager("a");
        let (other, holders) = (redlock.clone(), world.holders.clone());
        world.thread(move |thread| hold(&thread, &other, &holders));
        world.thread(move |thread| {
            let _ = thread.abandon(redlock.lock("x").wait(LONG).into_future());
        });
        world.run(Duration::from_millis(6));
    });
}

#[test]
fn split_votes_end() {
    explore(|| {
        let world = World::late(3);
        for owner in ["a", "b"] {
            let (redlock, holders) = (world.manager(owner), world.holders.clone());
            world.thread(move |thread| hold(&thread, &redlock, &holders));
        }
        world.run(IDLE);
    });
}

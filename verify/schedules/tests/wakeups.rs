//! Several managers over the same nodes: hints of releases wake the waiters.

use std::{future::IntoFuture, time::Duration};

use tower_redlock::{Redlock, RedlockBuilder};
use tower_redlock_schedules::{Holders, Thread, World, explore, pass};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);

/// Far below the pause of a waiter that got no hint of a release, which is a second.
const IDLE: Duration = Duration::from_millis(60);

fn settings(builder: RedlockBuilder) -> RedlockBuilder {
    builder.retry_delay(Duration::from_millis(1)..=Duration::from_millis(2))
}

fn hold(thread: &Thread, redlock: &Redlock, holders: &Holders) {
    let request = redlock.lock("x").wait(LONG).into_future();
    let lock = thread.block_on(request).expect("its turn");
    holders.granted(&lock);
    pass();
    drop(lock);
}

#[test]
fn releases_wake_other_managers() {
    explore(|| {
        let world = World::new(3);
        let holders = world.holders.clone();
        for owner in ["a", "b"] {
            let (redlock, holders) = (world.manager_with(owner, settings), holders.clone());
            world.thread(move |thread| hold(&thread, &redlock, &holders));
        }
        world.run(IDLE);
    });
}

#[test]
fn lines_of_managers_take_turns() {
    explore(|| {
        let world = World::new(1);
        let holders = world.holders.clone();
        for owner in ["a", "b"] {
            let redlock = world.manager_with(owner, settings);
            for _ in 0..2 {
                let (redlock, holders) = (redlock.clone(), holders.clone());
                world.thread(move |thread| hold(&thread, &redlock, &holders));
            }
        }
        world.run(IDLE);
    });
}

/// A waiter leaves while its manager begins its next try.
#[test]
fn abandoned_waiters_leave_no_key() {
    explore(|| {
        let world = World::new(1);
        let holders = world.holders.clone();
        let (a, b) = (world.manager_with("a", settings), world.manager_with("b", settings));
        let of_a = holders.clone();
        world.thread(move |thread| hold(&thread, &a, &of_a));
        let (left, of_left) = (b.clone(), holders.clone());
        world.thread(move |thread| {
            let request = left.lock("x").wait(LONG).into_future();
            if let Some(lock) = thread.abandon(request) {
                of_left.granted(&lock.expect("granted"));
            }
        });
        world.thread(move |thread| hold(&thread, &b, &holders));
        world.run(IDLE);
    });
}

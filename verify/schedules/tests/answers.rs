//! Answers that arrive after the call, on another thread than the request's.

use std::time::Duration;

use tower_redlock_schedules::{World, abandon, explore, hold};

/// Far below the pause of a waiter that got no hint of a release, which is a second.
const IDLE: Duration = Duration::from_millis(120);

#[test]
fn decisions_wake_requests() {
    explore(|| {
        let world = World::late(1);
        world.users(&world.manager("a"), 2, hold);
        world.run(Duration::from_millis(6));
    });
}

#[test]
fn abandoned_attempts_release_late_grants() {
    explore(|| {
        let world = World::late(3);
        let redlock = world.manager("a");
        world.users(&redlock, 1, hold);
        world.users(&redlock, 1, abandon);
        drop(redlock);
        world.run(Duration::from_millis(6));
    });
}

#[test]
fn split_votes_end() {
    explore(|| {
        let world = World::late(3);
        for owner in ["a", "b"] {
            world.users(&world.manager(owner), 1, hold);
        }
        world.run(IDLE);
    });
}

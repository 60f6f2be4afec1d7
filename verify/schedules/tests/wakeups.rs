//! Several managers over the same nodes: hints of releases wake the waiters.

use std::time::Duration;

use tower_redlock::RedlockBuilder;
use tower_redlock_schedules::{World, abandon, explore, hold};

/// Far below the pause of a waiter that got no hint of a release, which is a second.
const IDLE: Duration = Duration::from_millis(60);

fn settings(builder: RedlockBuilder) -> RedlockBuilder {
    builder.retry_delay(Duration::from_millis(1)..=Duration::from_millis(2))
}

#[test]
fn releases_wake_other_managers() {
    explore(|| {
        let world = World::new(3);
        for owner in ["a", "b"] {
            world.users(&world.manager_with(owner, settings), 1, hold);
        }
        world.run(IDLE);
    });
}

#[test]
fn lines_of_managers_take_turns() {
    explore(|| {
        let world = World::new(1);
        for owner in ["a", "b"] {
            world.users(&world.manager_with(owner, settings), 2, hold);
        }
        world.run(IDLE);
    });
}

/// A waiter leaves while its manager begins its next try.
#[test]
fn abandoned_waiters_leave_no_key() {
    explore(|| {
        let world = World::new(1);
        world.users(&world.manager_with("a", settings), 1, hold);
        let redlock = world.manager_with("b", settings);
        world.users(&redlock, 1, abandon);
        world.users(&redlock, 1, hold);
        drop(redlock);
        world.run(IDLE);
    });
}

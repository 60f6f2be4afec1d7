//! Timers that are set, moved and cancelled while the clock moves on another thread.

use std::{future::IntoFuture, time::Duration};

use tower_redlock::{LockError, LockRequest, Redlock};
use tower_redlock_schedules::{Holders, Thread, World, explore, pass};

const TTL: Duration = Duration::from_millis(30);

const MS: Duration = Duration::from_millis(1);

/// Starts a thread that moves the clock.
fn move_clock(world: &World, steps: u32, by: Duration) {
    let clock = world.clock.clone();
    world.thread(move |_| {
        for _ in 0..steps {
            pass();
            clock.leap(by);
        }
    });
}

fn request(redlock: &Redlock) -> LockRequest {
    redlock.lock("x").ttl(TTL).wait(Duration::from_secs(60))
}

/// A lock that is granted late ends before its holder is polled.
fn hold(thread: &Thread, request: LockRequest, holders: &Holders) {
    match thread.block_on(request.into_future()) {
        Ok(lock) => {
            holders.granted(&lock);
            pass();
        }
        Err(error) => assert!(matches!(error, LockError::TooSlow { .. }), "{error}"),
    }
}

#[test]
fn waits_end_on_time() {
    explore(|| {
        let world = World::new(1);
        let redlock = world.manager("a");
        let (holder, clock) = (redlock.clone(), world.clock.clone());
        world.thread(move |thread| {
            let lock =
                thread.block_on(holder.lock("x").wait(MS * 60).into_future()).expect("granted");
            thread.block_on(clock.sleep(MS * 8));
            drop(lock);
        });
        for wait in [MS, MS * 2, MS * 3] {
            let redlock = redlock.clone();
            world.thread(move |thread| {
                let request = redlock.lock("x").wait(wait).into_future();
                match thread.block_on(request) {
                    Ok(_) | Err(LockError::WaitTimedOut { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            });
        }
        world.thread(move |thread| {
            thread.abandon(redlock.lock("x").wait(MS).into_future());
        });
        move_clock(&world, 2, MS);
        // The holder may be the last one to be granted.
        world.run(MS * 14);
    });
}

/// The key expires while the holder releases it, and another manager waits.
#[test]
fn release_meets_expiry() {
    explore(|| {
        let world = World::new(1);
        for owner in ["a", "b"] {
            world.users(&world.manager(owner), 1, |thread, redlock, holders| {
                hold(thread, request(redlock).auto_extend(false), holders);
            });
        }
        move_clock(&world, 4, TTL / 3);
        world.run(TTL * 4);
    });
}

/// Renewals by the timer and by hand, hand-offs and releases, while the clock moves.
#[test]
fn renewal_meets_release() {
    explore(|| {
        let world = World::new(1);
        let redlock = world.manager("a");
        world.users(&redlock, 2, |thread, redlock, holders| {
            hold(thread, request(redlock), holders);
        });
        world.users(&redlock, 1, |thread, redlock, holders| {
            let Ok(lock) = thread.block_on(request(redlock).into_future()) else { return };
            holders.granted(&lock);
            let lost = lock.lost();
            let _ = thread.block_on(lock.extend());
            drop(lock);
            thread.block_on(lost);
        });
        drop(redlock);
        move_clock(&world, 4, TTL / 3);
        world.run(TTL * 4);
    });
}

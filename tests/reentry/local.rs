//! Locks over embedded nodes.

use std::{
    future::{IntoFuture, pending},
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    thread,
    time::Duration,
};

use tower_redlock::{
    LockError, Redlock,
    error::LossCause,
    node::EmbeddedNodes,
    testing::{ManualClock, Nodes},
};

use crate::reenter::{
    assert_told, at_every_event, block_on, poll_once, use_context, use_manager, waker, was_told,
    without_deadlock,
};
use crate::support::eventually;

const MS: Duration = Duration::from_millis(1);
/// Events request the same name, and so disturb requests that do not wait.
const PATIENT: Duration = Duration::from_secs(20);

fn manager() -> Redlock {
    manager_with_ttl(300 * MS)
}

fn manager_with_ttl(ttl: Duration) -> Redlock {
    let builder = Redlock::builder().nodes_from(&EmbeddedNodes::new(3)).ttl(ttl);
    let redlock = builder.max_waiters(2).build().unwrap();
    use_manager(&redlock);
    redlock
}

#[test]
fn held_renewed_and_lost_locks() {
    without_deadlock(|| {
        // Votes have to come within a tenth of the TTL, also on a busy machine.
        let redlock = manager_with_ttl(3_000 * MS);
        let lock = block_on(redlock.lock("x").wait(PATIENT).into_future()).unwrap();
        use_context(lock.context());
        block_on(lock.extend()).unwrap();
        // Futures that watch the lock are created and dropped meanwhile.
        let (mut renewals, mut left) = (0, lock.remaining());
        eventually("the lock is renewed twice", || {
            poll_once(lock.lost());
            let mut lost = pin!(lock.lost());
            for _ in 0..2 {
                assert!(lost.as_mut().poll(&mut Context::from_waker(&waker())).is_pending());
            }
            let before = std::mem::replace(&mut left, lock.remaining());
            renewals += usize::from(left > before);
            renewals == 2
        });
        // Its answers may come too late on a busy machine.
        let _ = block_on(lock.release());

        let short = redlock.lock("x").wait(PATIENT).max_hold(1_000 * MS);
        let stopped = block_on(short.run(|_| pending::<()>()));
        assert!(matches!(stopped, Err(LockError::Lost { .. })), "{stopped:?}");
        let short = redlock.lock("x").wait(PATIENT).max_hold(1_000 * MS);
        let told = "guarded work blocks past the end of its lock, and can't be dropped";
        let overran = block_on(short.run(|_| async {
            while !was_told(told) {
                thread::sleep(5 * MS);
            }
        }));
        assert_eq!(overran, Ok(()));
        let lock =
            block_on(redlock.lock("x").wait(PATIENT).auto_extend(false).into_future()).unwrap();
        assert!(matches!(block_on(lock.lost()), LossCause::Expired { .. }));
        assert_told(&[
            "acquired",
            "renewing",
            "renewed",
            "lock ended",
            "hard stop: guarded work was dropped",
        ]);
    });
}

/// The next waiter is woken while no mutex is held.
#[test]
fn holder_dropped_during_loss_log() {
    without_deadlock(|| {
        let redlock = manager_with_ttl(500 * MS);
        for i in 0..5 {
            let name = format!("lost:{i}");
            let lock = redlock.lock(name.as_str()).auto_extend(false);
            let lock = block_on(lock.into_future()).unwrap();
            let context = lock.context();
            let held = Mutex::new(Some(lock));
            at_every_event(move || {
                if context.ensure_valid().is_err() {
                    drop(held.lock().unwrap().take());
                }
            });
            drop(block_on(redlock.lock(name).wait(PATIENT).into_future()).unwrap());
        }
        assert_told(&["lock ended"]);
    });
}

#[test]
fn work_that_hangs() {
    without_deadlock(|| {
        let redlock = manager();
        let hung = Arc::new(AtomicBool::new(false));
        let leader = redlock.leader("hangs").stall_limit(40 * MS);
        let ended = block_on(leader.run(move |term| {
            let hangs = !hung.swap(true, Ordering::SeqCst);
            async move {
                while hangs && term.ensure_valid().is_ok() {
                    thread::sleep(5 * MS);
                }
                if hangs {
                    pending::<()>().await;
                }
            }
        }));
        assert_eq!(ended, Ok(Some(())));
        let began = AtomicBool::new(false);
        let leader = redlock.leader("silent").heartbeat_within(40 * MS);
        let ended = block_on(leader.run(move |_| {
            let is_silent = !began.swap(true, Ordering::SeqCst);
            async move {
                if is_silent {
                    pending::<()>().await;
                }
            }
        }));
        assert_eq!(ended, Ok(Some(())));
        assert_told(&[
            "guarded work hangs in one poll: its lock is not renewed any more",
            "guarded work gives no heartbeat: its lock is not renewed any more",
            "lock lost",
        ]);
    });
}

#[test]
fn requests_that_wait_in_line() {
    without_deadlock(|| {
        // The lock outlives pauses of a busy machine.
        let redlock = manager_with_ttl(3_000 * MS);
        let lock = block_on(redlock.lock("line").into_future()).unwrap();
        let mut waiting: Vec<_> =
            (0..2).map(|_| redlock.lock("line").wait(PATIENT).into_future()).collect();
        for one in &mut waiting {
            for _ in 0..2 {
                let polled = Pin::new(&mut *one).poll(&mut Context::from_waker(&waker()));
                assert!(polled.is_pending());
            }
        }
        let full = block_on(redlock.lock("line").wait(MS).into_future());
        assert!(matches!(full, Err(LockError::Held { .. })), "{full:?}");
        // One waiter leaves the queue, one gets a handover, and a single attempt gets the result of
        // the first waiter.
        drop(waiting.pop());
        drop(lock);
        let next = block_on(waiting.pop().unwrap()).unwrap();
        let refused = block_on(redlock.lock("line").into_future());
        assert!(matches!(refused, Err(LockError::Held { .. })), "{refused:?}");
        let late = block_on(redlock.lock("line").wait(30 * MS).into_future());
        assert!(matches!(late, Err(LockError::WaitTimedOut { .. })), "{late:?}");
        drop(next);
        assert_told(&["handed on", "request refused: too many wait", "not acquired"]);
    });
}

#[test]
fn requests_that_wait_for_another_process() {
    without_deadlock(|| {
        let nodes = EmbeddedNodes::new(3);
        let manager = || {
            let redlock = Redlock::builder().nodes_from(&nodes).build().unwrap();
            use_manager(&redlock);
            redlock
        };
        let (ours, theirs) = (manager(), manager());
        for _ in 0..20 {
            let lock = block_on(theirs.lock("x").wait(PATIENT).into_future()).unwrap();
            let mut waiting = pin!(ours.lock("x").wait(PATIENT).into_future());
            for _ in 0..3 {
                let polled = waiting.as_mut().poll(&mut Context::from_waker(&waker()));
                assert!(matches!(polled, Poll::Pending));
                thread::sleep(2 * MS);
            }
            drop(lock);
            drop(block_on(waiting).unwrap());
        }
        assert_told(&["attempt failed"]);
    });
}

#[test]
fn work_that_is_done_once() {
    without_deadlock(|| {
        let redlock = manager();
        let key = || redlock.once("key").wait(PATIENT);
        let run = |ended: Result<u8, u8>| key().run(move |_| async move { ended });
        block_on(run(Err(1))).unwrap_err();
        block_on(run(Ok(1))).unwrap();
        block_on(run(Ok(1))).unwrap();
        block_on(key().forget()).unwrap();
        assert_told(&["once"]);
    });
}

#[test]
fn failing_nodes_on_a_manual_clock() {
    without_deadlock(|| {
        let clock = ManualClock::new();
        let nodes = Nodes::new(5, &clock);
        let redlock = nodes.replica("a").redlock();
        use_manager(&redlock);
        let lock = block_on(redlock.lock("x").wait(PATIENT).into_future()).unwrap();
        let mut lost = pin!(lock.lost());
        assert!(lost.as_mut().poll(&mut Context::from_waker(&waker())).is_pending());
        nodes.stop(0..3);
        clock.advance(Duration::from_secs(10));
        assert!(lost.as_mut().poll(&mut Context::from_waker(&waker())).is_ready());
        nodes.freeze(3..5);
        let mut waiting = pin!(redlock.lock("x").wait(Duration::from_secs(5)).into_future());
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker())).is_pending());
        clock.advance(Duration::from_secs(6));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker())).is_ready());
        nodes.thaw(3..5);
        nodes.start(0..3);
        drop(lock);
        clock.advance(Duration::from_secs(1));
        assert_told(&["lock lost"]);
    });
}

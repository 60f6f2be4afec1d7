//! Hand-offs of a lease, and jumps of servers' clocks.

use std::{
    future::{Future, IntoFuture},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use crate::{
    Lock, LockRequest, Redlock,
    error::LossCause,
    node::ClockJump,
    testing::{ManualClock, Nodes},
};

const TTL: Duration = Duration::from_secs(10);
const WAIT: Duration = Duration::from_secs(3_600);

struct Fixture {
    clock: ManualClock,
    redlock: Redlock,
}

impl Fixture {
    fn new() -> Self {
        let clock = ManualClock::new();
        let redlock = Nodes::new(3, &clock).replica("a").redlock();
        Self { clock, redlock }
    }

    fn lock(&self) -> Lock {
        let mut acquired = self.clock.spawn(self.redlock.lock("x").into_future());
        self.clock.settle();
        acquired.take().unwrap().unwrap()
    }

    /// Returns the next task's lock after the release of `lock`, and of calling `before`.
    fn next_after(
        &self,
        lock: Lock,
        request: impl FnOnce(LockRequest) -> LockRequest,
        before: impl FnOnce(&Lock),
    ) -> Lock {
        let request = request(self.redlock.lock("x").wait(WAIT));
        let mut next = self.clock.spawn(request.acquire_for_work());
        self.clock.settle();
        assert!(!next.is_finished());
        before(&lock);
        drop(lock);
        self.clock.settle();
        next.take().unwrap().unwrap()
    }
}

#[test]
fn clock_jump_prevents_a_hand_off() {
    let fixture = Fixture::new();
    let first = fixture.lock();
    let token = first.fencing_token().get();
    let jump = |lock: &Lock| {
        let client = lock.lease().client();
        let seen = client.clock().now();
        // Less than the drift allowance: the lock is not lost.
        let jump = ClockJump { seen, by_micros: 1_000, at_most: Duration::from_millis(1) };
        client.clock_jumps.jumped(0, jump);
    };
    let second = fixture.next_after(first, |request| request, jump);

    assert!(second.fencing_token().get() > token + 255, "a new lease");
    let token = second.fencing_token().get();
    let third = fixture.next_after(second, |request| request, |_| {});

    assert_eq!(third.fencing_token().get(), token + 1, "no jump since");
}

/// A lock on three nodes without renewal, and jumps of their clocks.
struct Jumping {
    fixture: Fixture,
    nodes: Nodes,
    lock: Lock,
}

impl Jumping {
    fn new() -> Self {
        let clock = ManualClock::new();
        let nodes = Nodes::new(3, &clock);
        let redlock = nodes.replica("a").redlock();
        let fixture = Fixture { clock, redlock };
        let request = fixture.redlock.lock("x").auto_extend(false);
        let mut acquired = fixture.clock.spawn(request.into_future());
        fixture.clock.settle();
        let lock = acquired.take().unwrap().unwrap();
        Self { fixture, nodes, lock }
    }

    fn jump(&self, node: usize, by: Duration) {
        let client = self.lock.lease().client();
        let by_micros = i64::try_from(by.as_micros()).unwrap();
        let jump = ClockJump { seen: client.clock().now(), by_micros, at_most: by };
        client.clock_jumps.jumped(node, jump);
        self.pass();
    }

    fn pass(&self) {
        self.fixture.clock.advance(Duration::from_millis(1));
    }

    fn extend(&self, while_sent: impl FnOnce()) {
        self.pass();
        let mut extended = std::pin::pin!(self.lock.extend());
        let cx = &mut Context::from_waker(Waker::noop());
        let first = extended.as_mut().poll(cx);
        while_sent();
        let Poll::Ready(result) = (if first.is_ready() { first } else { extended.poll(cx) }) else {
            panic!("a quorum has answered")
        };
        result.unwrap();
        self.pass();
    }
}

const FAR: Duration = Duration::from_secs(300);

mod jumps {
    use super::*;

    #[test]
    fn do_not_add_up_across_extensions() {
        let jumping = Jumping::new();

        jumping.jump(0, FAR);
        jumping.extend(|| {});
        jumping.jump(1, FAR);
        assert!(jumping.lock.is_valid(), "two nodes confirmed it since");

        // Less than the drift allowance.
        jumping.jump(0, Duration::from_millis(1));
        assert!(jumping.lock.is_valid());
        jumping.jump(0, FAR);

        assert!(!jumping.lock.is_valid());
    }

    #[test]
    fn count_once() {
        let jumping = Jumping::new();

        jumping.nodes.freeze([0]);
        // Sent before the jump is detected, answered after it: the key still existed.
        jumping.extend(|| {
            jumping.jump(0, FAR);
            jumping.nodes.thaw([0]);
        });
        jumping.jump(1, FAR);
        assert!(jumping.lock.is_valid(), "two nodes confirmed it since");
        jumping.jump(2, FAR);

        assert!(!jumping.lock.is_valid());
    }

    #[test]
    fn of_one_node_add_up() {
        let jumping = Jumping::new();
        jumping.jump(1, FAR);
        let small = Duration::from_millis(60);
        jumping.jump(0, small);
        assert!(jumping.lock.is_valid(), "the drift allowance is 102 ms");
        jumping.jump(0, small);
        assert!(!jumping.lock.is_valid());
    }
}

#[test]
fn handed_on_lease_is_renewed() {
    let fixture = Fixture::new();
    let lock = fixture.lock();
    let lock = fixture.next_after(lock, |request| request, |_| {});
    let redlock = fixture.redlock.clone();
    let revoked = fixture.clock.spawn(async move {
        let holder = redlock.inspect("x").await.unwrap().unwrap();
        redlock.revoke(&holder).await.unwrap();
        holder.token
    });

    fixture.clock.advance(Duration::from_secs(1));
    let before = { revoked }.take().unwrap();
    assert_eq!(before.get() + 1, lock.fencing_token().get(), "stored by the first grant");
    fixture.clock.advance(TTL * 6);
    assert!(lock.is_valid());
    let redlock = fixture.redlock.clone();
    let mut holder = fixture.clock.spawn(async move { redlock.inspect("x").await });
    fixture.clock.advance(Duration::from_secs(1));
    let holder = holder.take().unwrap().unwrap().unwrap();

    assert_eq!(holder.token, lock.fencing_token());
}

#[cfg(feature = "scheduler")]
#[test]
fn each_holder_has_its_stall_watch() {
    const LIMIT: Duration = Duration::from_secs(4);
    let fixture = Fixture::new();
    let lock = fixture.lock();
    let timers = Arc::clone(lock.lease().timers());
    let watched = fixture.next_after(
        lock,
        |request| request.options(crate::LockOptions::new().stall_limit(LIMIT)),
        |_| {},
    );

    assert_eq!(timers.len(), 2, "renewal and watch");
    let unwatched = fixture.next_after(watched, |request| request, |_| {});
    assert_eq!(timers.len(), 1, "renewal");
    let hanging = fixture.next_after(
        unwatched,
        |request| request.options(crate::LockOptions::new().stall_limit(LIMIT)),
        |_| {},
    );
    let mut lost = fixture.clock.spawn(hanging.lost());
    let mut poll = hanging.lease().enter_poll();
    poll.begin();
    fixture.clock.advance(LIMIT * 2 + TTL);
    assert_eq!(lost.take(), Some(LossCause::Stalled { limit: LIMIT }));
    drop(poll);
}

#[test]
fn next_holders_end_is_detected() {
    const HOLD: Duration = Duration::from_secs(1);
    let fixture = Fixture::new();
    let lock = fixture.lock();
    let lock = fixture.next_after(lock, |request| request.max_hold(HOLD), |_| {});
    let mut lost = fixture.clock.spawn(lock.lost());

    fixture.clock.advance(HOLD.saturating_sub(Duration::from_millis(1)));
    assert_eq!(lost.take(), None);
    fixture.clock.advance(Duration::from_millis(1));

    assert_eq!(lost.take(), Some(LossCause::MaxHold { limit: HOLD }));
}

#[test]
fn hand_off_wakes_watchers() {
    let fixture = Fixture::new();
    let lock = fixture.lock();
    let mut lost = fixture.clock.spawn(lock.lost());
    let stopping = fixture.clock.spawn(lock.context().stopping());

    fixture.clock.settle();
    let next = fixture.next_after(lock, |request| request, |_| {});
    assert_eq!(lost.take(), Some(LossCause::Released));
    assert!(stopping.is_finished());
    let mut lost = fixture.clock.spawn(next.lost());
    fixture.clock.settle();

    assert_eq!(lost.take(), None, "the next holder has it");
}

#[cfg(feature = "scheduler")]
#[test]
fn stop_request_concerns_one_holder() {
    let fixture = Fixture::new();
    let lock = fixture.lock();
    let mut renewals = lock.context().renewals();
    let mut told = fixture.clock.spawn(async move { renewals.next().await });
    let lock = fixture.next_after(lock, |request| request, |lock| lock.context().ask_to_stop());

    assert_eq!(told.take(), Some(None), "its lock has ended");
    let stopping = fixture.clock.spawn(lock.context().stopping());
    fixture.clock.settle();

    assert!(!stopping.is_finished());
}

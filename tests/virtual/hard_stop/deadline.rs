//! Work is polled until the deadline.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use tower_redlock::{LockContext, LockError, error::LossCause};

use crate::fixture::Fixture;
use crate::hard_stop::fixture::{
    EndlessWork, Flag, NANO, Scene, VALIDITY, Woken, is_expired, just_before, poll,
};

#[test]
fn last_poll_precedes_the_deadline() {
    let Scene { clock, redlock, nodes } = Scene::without_timers(5);
    let work = EndlessWork::default();
    let mut run = pin!(redlock.lock("x").auto_extend(false).run(|_| work.future()));
    assert!(poll(run.as_mut()).is_pending());
    assert_eq!(work.polls(), 1);
    clock.advance(just_before(VALIDITY));
    assert!(poll(run.as_mut()).is_pending());
    assert_eq!(work.polls(), 2, "there is a nanosecond left");
    clock.advance(NANO);
    let polled = poll(run.as_mut());
    assert!(is_expired(&polled), "{polled:?}");
    assert_eq!(work.polls(), 2, "no poll begins at the deadline");
    assert!(work.is_dropped(), "the loss drops the work, not the caller");
    assert_eq!(nodes.key_counts(), [0; 5], "and gives the keys back");
}

#[test]
fn jumped_clock_stops_idle_work() {
    let Scene { clock, redlock, .. } = Scene::without_timers(5);
    let work = EndlessWork::default();
    let mut run = pin!(redlock.lock("x").run(|_| work.future()));
    let woken = Arc::<Woken>::default();
    let task = Waker::from(Arc::clone(&woken));
    assert!(run.as_mut().poll(&mut Context::from_waker(&task)).is_pending());
    clock.advance(VALIDITY * 3);
    work.wake();
    assert_eq!(woken.0.load(Ordering::SeqCst), 1, "the work's own waker");
    let polled = run.as_mut().poll(&mut Context::from_waker(&task));
    assert!(is_expired(&polled), "{polled:?}");
    assert_eq!(work.polls(), 1);
    assert!(work.is_dropped());
}

#[test]
fn ready_work_is_not_polled_late() {
    let Scene { clock, redlock, .. } = Scene::without_timers(5);
    let ready = Arc::new(AtomicBool::new(false));
    let is_ready = Arc::clone(&ready);
    let work =
        poll_fn(
            move |_| {
                if is_ready.load(Ordering::SeqCst) { Poll::Ready("done") } else { Poll::Pending }
            },
        );
    let mut run = pin!(redlock.lock("x").run(|_| work));
    assert!(poll(run.as_mut()).is_pending());
    ready.store(true, Ordering::SeqCst);
    clock.advance(VALIDITY);
    let polled = poll(run.as_mut());
    assert!(is_expired(&polled), "{polled:?}");
}

/// The nodes lose the keys, and another process acquires the lock.
#[test]
fn theft_ends_work_at_the_renewal() {
    let fixture = Fixture::new(5, ["blue", "green"]);
    let [blue, green] = &fixture.processes;
    let clock = fixture.clock.clone();
    let mut run = fixture.spawn(blue.lock("x").run(move |cx| async move {
        // The work returns if it is polled after the loss.
        while cx.ensure_valid().is_ok() {
            clock.sleep(VALIDITY / 100).await;
        }
    }));
    fixture.nodes.forget_unguarded(0..5);
    let _thief = fixture.done(green.lock("x")).expect("the keys are gone");
    assert!(!run.is_finished(), "no renewal has begun");
    fixture.clock.advance(VALIDITY / 2);
    let lost = run.take().expect("the work is stopped").expect_err("the lock is lost");
    let LockError::Lost { cause: LossCause::Stolen { owner } } = lost else { panic!("{lost:?}") };
    assert_eq!(owner.as_deref(), Some("green"));
    assert_eq!(fixture.nodes.key_counts(), [1; 5], "the thief keeps its keys");
}

#[test]
fn max_hold_is_a_deadline() {
    let Scene { clock, redlock, .. } = Scene::without_timers(5);
    let limit = Duration::from_secs(3);
    let work = EndlessWork::default();
    let mut run = pin!(redlock.lock("x").max_hold(limit).run(|_| work.future()));
    assert!(poll(run.as_mut()).is_pending());
    clock.advance(just_before(limit));
    assert!(poll(run.as_mut()).is_pending());
    clock.advance(NANO);
    let Poll::Ready(Err(LockError::Lost { cause })) = poll(run.as_mut()) else { panic!() };
    assert_eq!(cause, LossCause::MaxHold { limit });
    assert_eq!(work.polls(), 2);
    assert!(work.is_dropped());
}

#[test]
fn ready_overrun_returns_its_output() {
    let Scene { clock, redlock, nodes } = Scene::without_timers(5);
    let in_poll = clock.clone();
    let work = poll_fn(move |_| {
        in_poll.advance(VALIDITY * 2);
        Poll::Ready("done")
    });

    let mut run = pin!(redlock.lock("x").run(|_| work));

    assert_eq!(poll(run.as_mut()), Poll::Ready(Ok("done")));
    assert_eq!(nodes.key_counts(), [0; 5]);
}

#[test]
fn pending_overrun_is_the_last_poll() {
    let Scene { clock, redlock, .. } = Scene::without_timers(5);
    let in_poll = clock.clone();
    let (flag, is_dropped) = Flag::new();
    let work = poll_fn(move |_| {
        let _owned = &flag;
        in_poll.advance(VALIDITY);
        Poll::<()>::Pending
    });
    let mut run = pin!(redlock.lock("x").run(|_| work));

    let polled = poll(run.as_mut());

    assert!(is_expired(&polled), "{polled:?}");
    assert!(is_dropped.load(Ordering::SeqCst));
}

#[test]
fn late_made_work_is_not_polled() {
    let Scene { clock, redlock, .. } = Scene::without_timers(5);
    let work = EndlessWork::default();
    let mut run = pin!(redlock.lock("x").run(|cx| {
        assert!(LockContext::current().is_some());
        clock.advance(VALIDITY);
        assert!(matches!(cx.ensure_valid(), Err(LockError::Lost { .. })));
        assert_eq!(cx.remaining(), Duration::ZERO);
        work.future()
    }));
    let polled = poll(run.as_mut());
    assert!(is_expired(&polled), "{polled:?}");
    assert_eq!(work.polls(), 0);
    assert!(work.is_dropped());
}

#[test]
fn end_wakes_and_drops_idle_work() {
    let Scene { clock, redlock, nodes } = Scene::by_hand(5);
    let work = EndlessWork::default();
    let mut run = pin!(redlock.lock("x").auto_extend(false).run(|_| work.future()));
    let woken = Arc::<Woken>::default();
    let task = Waker::from(Arc::clone(&woken));
    assert!(run.as_mut().poll(&mut Context::from_waker(&task)).is_pending());
    clock.advance(just_before(VALIDITY));
    assert!(run.as_mut().poll(&mut Context::from_waker(&task)).is_pending());
    assert_eq!(woken.0.load(Ordering::SeqCst), 0);
    clock.advance(NANO);
    let started = Instant::now();
    while woken.0.load(Ordering::SeqCst) == 0 {
        assert!(started.elapsed() < Duration::from_secs(10), "the task is woken");
        std::thread::yield_now();
    }
    let polled = run.as_mut().poll(&mut Context::from_waker(&task));
    assert!(is_expired(&polled), "{polled:?}");
    assert_eq!(work.polls(), 2);
    assert!(work.is_dropped());
    assert_eq!(nodes.key_counts(), [0; 5]);
}

#[test]
fn renewal_moves_the_deadline() {
    let Scene { clock, redlock, .. } = Scene::by_hand(5);
    let work = EndlessWork::default();
    let (send, contexts) = std::sync::mpsc::channel();
    let mut run = pin!(redlock.lock("x").run(|cx| {
        send.send(cx).unwrap();
        work.future()
    }));
    assert!(poll(run.as_mut()).is_pending());
    let context = contexts.recv().unwrap();
    for _ in 0..10 {
        clock.advance(VALIDITY / 2);
        let started = Instant::now();
        while context.remaining() < VALIDITY {
            assert!(started.elapsed() < Duration::from_secs(10), "the lock is renewed");
            assert!(poll(run.as_mut()).is_pending());
        }
    }
    assert!(!work.is_dropped());
}

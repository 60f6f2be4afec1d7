//! Tasks that run while the clock is moved.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, mpsc},
    task::Poll,
};

use tower_redlock::{testing::ManualClock, time::Clock};

use crate::durations::SECOND;

#[test]
fn tasks_run_at_their_times() {
    let clock = ManualClock::new();
    let start = clock.now();
    let seen = Arc::new(Mutex::new(Vec::new()));
    for (name, first, second) in [("a", 3, 4), ("b", 1, 5), ("c", 2, 0)] {
        let (of_task, seen) = (clock.clone(), Arc::clone(&seen));
        drop(clock.spawn(async move {
            for pause in [first, second] {
                of_task.sleep(pause * SECOND).await;
                seen.lock()
                    .unwrap()
                    .push((name, of_task.now().saturating_duration_since(start).as_secs()));
            }
        }));
    }
    assert!(seen.lock().unwrap().is_empty(), "nothing runs before the clock is moved");
    clock.advance(6 * SECOND);
    let expected = [("b", 1), ("c", 2), ("c", 2), ("a", 3), ("b", 6)];
    assert_eq!(*seen.lock().unwrap(), expected);
    assert_eq!(clock.now(), start + 6 * SECOND);
    clock.advance(SECOND);
    assert_eq!(seen.lock().unwrap().last(), Some(&("a", 7)));
}

#[test]
fn leap_runs_nothing_in_between() {
    let clock = ManualClock::new();
    let start = clock.now();
    let of_task = clock.clone();
    let mut task = clock.spawn(async move {
        of_task.sleep(SECOND).await;
        let first = of_task.now();
        of_task.sleep(SECOND).await;
        (first, of_task.now())
    });
    clock.settle();
    clock.leap(10 * SECOND);
    assert!(!task.is_finished());
    clock.advance(SECOND);
    assert_eq!(task.take(), Some((start + 10 * SECOND, start + 11 * SECOND)));
    assert_eq!(task.take(), None, "once");
}

#[test]
fn settle_runs_woken_tasks_only() {
    let clock = ManualClock::new();
    let (send, mut receive) = tokio::sync::mpsc::unbounded_channel();
    let (answer, mut answers) = tokio::sync::mpsc::unbounded_channel();
    // Far more than the budget of a tokio task, which does not apply to these tasks.
    let echo = async move {
        while let Some(number) = receive.recv().await {
            answer.send(number).unwrap();
        }
    };
    let sum = async move {
        let mut sum = 0;
        while let Some(number) = answers.recv().await {
            sum += number;
        }
        sum
    };
    let (echo, mut sum) = (clock.spawn(echo), clock.spawn(sum));
    clock.settle();
    (0..1_000_u64).for_each(|number| send.send(number).unwrap());
    let now = clock.now();
    clock.settle();
    assert!(!echo.is_finished());
    drop(send);
    assert!(!echo.is_finished(), "only when it is settled");
    clock.settle();
    assert!(echo.is_finished());
    assert_eq!(sum.take(), Some(499_500));
    assert_eq!(clock.now(), now);
}

#[tokio::test]
async fn settle_uses_no_tokio_budget() {
    settle_runs_woken_tasks_only();
}

#[tokio::test]
async fn task_runs_with_or_without_await() {
    let clock = ManualClock::new();
    let (send, receive) = mpsc::channel();
    let sleep = clock.sleep(SECOND);
    drop(clock.spawn(async move {
        sleep.await;
        send.send(()).unwrap();
    }));
    let sleep = clock.sleep(SECOND);
    let task = clock.spawn(async move {
        sleep.await;
        7
    });
    let waiting = tokio::spawn(task);
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    clock.advance(SECOND);
    assert_eq!(waiting.await.unwrap(), 7);
    receive.try_recv().unwrap();
}

#[test]
fn task_may_move_clock() {
    let clock = ManualClock::new();
    let start = clock.now();
    let sleep = clock.sleep(2 * SECOND);
    let mut other = clock.spawn({
        let clock = clock.clone();
        async move {
            sleep.await;
            clock.now()
        }
    });
    let blocking = clock.clone();
    let mut task = clock.spawn(async move {
        blocking.advance(5 * SECOND);
        blocking.now()
    });

    clock.advance(SECOND);

    assert_eq!(other.take(), Some(start + 2 * SECOND));
    assert_eq!(task.take(), Some(start + 5 * SECOND));
    assert_eq!(clock.now(), start + 5 * SECOND, "it was past the target, and does not go back");
}

#[test]
fn task_woken_while_polled_runs_again() {
    let clock = ManualClock::new();
    let (of_task, mut sleep) = (clock.clone(), Box::pin(clock.sleep(SECOND)));
    let mut is_first = true;
    let mut task = clock.spawn(poll_fn(move |cx| {
        let polled = sleep.as_mut().poll(cx);
        if std::mem::take(&mut is_first) {
            assert!(polled.is_pending());
            of_task.advance(SECOND);
            return Poll::Pending;
        }
        polled
    }));
    clock.settle();
    assert_eq!(task.take(), Some(()));
}

#[test]
fn panic_of_task_leaves_clock_usable() {
    let clock = ManualClock::new();
    let sleep = clock.sleep(SECOND);
    let mut task = clock.spawn(async move {
        sleep.await;
        panic!("of the task");
    });
    let moved = catch_unwind(AssertUnwindSafe(|| clock.advance(2 * SECOND)));
    assert_eq!(moved.unwrap_err().downcast_ref::<&str>(), Some(&"of the task"));
    assert_eq!(task.take(), None::<()>);
    // Another thread can move the clock, as the lock was released.
    let moving = clock.clone();
    let start = clock.now();
    std::thread::spawn(move || moving.advance(SECOND)).join().unwrap();
    assert_eq!(clock.now(), start + SECOND);
}

#[test]
fn endless_task_panics() {
    let clock = ManualClock::new();
    drop(clock.spawn(poll_fn(|cx| {
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    })));
    let settled = catch_unwind(AssertUnwindSafe(|| clock.settle()));
    let message = settled.unwrap_err();

    let message = message.downcast_ref::<&str>().expect("a panic with a text");

    assert!(message.contains("wakes itself for ever"), "{message}");
}

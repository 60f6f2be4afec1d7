//! The exploration finds a bug that needs a certain order of steps.

use std::{
    future::poll_fn,
    panic::catch_unwind,
    sync::Arc,
    task::{Poll, Waker},
    time::Duration,
};

use shuttle::sync::Mutex;
use tower_redlock_schedules::{World, explore};

/// The waker is stored after the flag was read, with the mutex unlocked in between.
#[test]
fn lost_wakeup_is_found() {
    let lost = catch_unwind(|| {
        explore(|| {
            let world = World::new(1);
            let flag = Arc::new(Mutex::new((false, None)));
            let set = Arc::clone(&flag);
            world.thread(move |_| {
                let waker = {
                    let mut state = set.lock().expect("no panic");
                    state.0 = true;
                    state.1.take()
                };
                if let Some(waker) = waker {
                    Waker::wake(waker);
                }
            });
            world.thread(move |thread| {
                thread.block_on(poll_fn(|cx| {
                    if flag.lock().expect("no panic").0 {
                        return Poll::Ready(());
                    }
                    flag.lock().expect("no panic").1 = Some(cx.waker().clone());
                    Poll::Pending
                }));
            });
            world.run(Duration::from_millis(2));
        });
    });
    let panic = lost.expect_err("a schedule in which the wake-up is lost");

    let text = panic.downcast_ref::<String>().expect("a text");

    assert!(text.contains("1 threads and 0 tasks wait"), "{text}");
}

//! Work that runs while a request pauses.

use std::{
    future::{IntoFuture, poll_fn},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Poll, Waker},
};

use tower_redlock::{lock::Spawner, testing::ManualSpawner};

use super::wakeups::builder;
use crate::durations::MINUTE;
use crate::fixture::{Fixture, poll};

/// Counts its tasks, keeps those that have not ended, and keeps them from running at times.
#[derive(Debug)]
struct Busy {
    spawner: ManualSpawner,
    tasks: Arc<()>,
    stopped: Arc<AtomicBool>,
    kept: Arc<Mutex<Vec<Waker>>>,
}

impl Spawner for Busy {
    fn spawn(&self, mut task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let (counted, is_busy) = (Arc::clone(&self.tasks), Arc::clone(&self.stopped));
        let kept = Arc::clone(&self.kept);
        self.spawner.spawn(Box::pin(async move {
            let mut is_missed = true;
            poll_fn(|cx| {
                if is_missed {
                    kept.lock().unwrap().push(cx.waker().clone());
                }
                is_missed = is_busy.load(Ordering::SeqCst);
                if is_missed { Poll::Pending } else { task.as_mut().poll(cx) }
            })
            .await;
            drop(counted);
        }));
    }
}

#[tokio::test]
async fn manager_task_ends_when_request_retries() {
    let Fixture { clock, nodes, .. } = Fixture::new(3, []);
    let _lock = builder(&nodes.replica("blue")).build().unwrap().lock("x").await.unwrap();
    let tasks = Arc::new(());
    let (is_busy, kept) = (Arc::new(AtomicBool::new(false)), Arc::<Mutex<Vec<Waker>>>::default());
    let spawner = Busy {
        spawner: clock.spawner(),
        tasks: Arc::clone(&tasks),
        stopped: Arc::clone(&is_busy),
        kept: Arc::clone(&kept),
    };
    let green = builder(&nodes.replica("green")).wakeups(false).spawner(spawner).build().unwrap();
    clock.settle();
    let timers = kept.lock().unwrap()[0].clone();
    let before = Arc::strong_count(&tasks);
    let mut waiting = green.lock("x").wait(60 * MINUTE).into_future();
    for _ in 0..2 {
        assert!(poll(&mut waiting).is_pending());
        clock.settle();
    }
    assert_eq!(Arc::strong_count(&tasks), before + 1, "it pauses");
    is_busy.store(true, Ordering::SeqCst);
    clock.leap(6 * MINUTE);
    // The pause is over, and the next task that is polled notices it. Its request is refused again.
    assert!(poll(&mut waiting).is_pending());
    is_busy.store(false, Ordering::SeqCst);
    timers.wake_by_ref();
    clock.settle();
    assert_eq!(Arc::strong_count(&tasks), before + 1, "nothing is left of the first pause");
    drop(waiting);
    clock.settle();
    assert_eq!(Arc::strong_count(&tasks), before, "nor of the second");
}

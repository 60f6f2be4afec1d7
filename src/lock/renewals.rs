use std::{future::poll_fn, sync::Arc};

use super::{lease::ActiveLease, watchers::Watch};

/// Tells of each renewal of a held lease, to a task that is not the work. Several between two looks
/// are told of once.
#[derive(Debug)]
pub(crate) struct Renewals {
    lease: Arc<ActiveLease>,
    watch: Watch,
    seen: u64,
}

impl Renewals {
    pub(crate) fn new(lease: Arc<ActiveLease>) -> Self {
        Self { lease, watch: Watch::default(), seen: 0 }
    }

    /// How often the lease has been renewed, each time that it is; `None` once it is over. Cancel
    /// safe.
    pub(crate) async fn next(&mut self) -> Option<u64> {
        let lease = &self.lease;
        let renewed = poll_fn(|cx| lease.poll_renewed(self.seen, &mut self.watch, cx)).await;
        self.seen = renewed.unwrap_or(self.seen);
        renewed
    }
}

impl Drop for Renewals {
    fn drop(&mut self) {
        self.lease.unwatch_renewals(&mut self.watch);
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use std::{
        future::IntoFuture,
        sync::atomic::{AtomicU32, Ordering},
        task::{Context, Wake, Waker},
        time::Duration,
    };

    use super::*;
    use crate::testing::{ManualClock, Nodes};

    #[derive(Default)]
    struct Wakes(AtomicU32);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_task_beside_the_work_learns_of_renewals_and_the_work_does_not() {
        let clock = ManualClock::new();
        let redlock = Nodes::new(3, &clock).replica("a").redlock();
        let mut acquired = clock.spawn(redlock.lock("x").into_future());
        clock.settle();
        let lock = acquired.take().unwrap().unwrap();
        let work = Arc::new(Wakes::default());
        let mut watch = Watch::default();
        lock.lease().watch(&mut watch, &Context::from_waker(&Waker::from(Arc::clone(&work))));
        let mut renewals = lock.context().renewals();
        let mut told = clock.spawn(async move {
            let mut told = Vec::new();
            while let Some(times) = renewals.next().await {
                told.push(times);
            }
            told
        });
        // At a third of the validity each.
        clock.advance(Duration::from_secs(10));
        assert_eq!(work.0.load(Ordering::SeqCst), 0);
        assert!(!told.is_finished());
        drop(lock);
        clock.settle();
        assert_eq!(told.take(), Some(vec![1, 2, 3]));
        assert_eq!(work.0.load(Ordering::SeqCst), 1, "the end is told to everybody");
    }

    #[test]
    fn who_is_asked_to_stop_is_told_at_once_and_keeps_the_lock() {
        let clock = ManualClock::new();
        let redlock = Nodes::new(3, &clock).replica("a").redlock();
        let mut acquired = clock.spawn(redlock.lock("x").into_future());
        clock.settle();
        let lock = acquired.take().unwrap().unwrap();
        let stopping = clock.spawn(lock.context().stopping());
        clock.settle();
        assert!(!stopping.is_finished());
        lock.context().ask_to_stop();
        clock.settle();
        assert!(stopping.is_finished());
        clock.advance(Duration::from_secs(60));
        assert!(lock.is_valid(), "renewed as before");
    }
}

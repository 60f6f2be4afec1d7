//! Types that `shuttle` lacks. They wrap the types of the standard library and tokio, and add
//! before each operation a point at which the scheduler may run another thread.

use std::sync::OnceLock as StdOnceLock;

use shuttle::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Notify as TokioNotify, futures::Notified};

/// A point at which the scheduler may run another thread.
#[derive(Debug, Default)]
struct SchedulePoint(AtomicBool);

impl SchedulePoint {
    fn pass(&self) {
        self.0.load(Ordering::SeqCst);
    }
}

/// [`tokio::sync::Notify`], whose operations the scheduler sees.
#[derive(Debug, Default)]
pub(crate) struct Notify {
    point: SchedulePoint,
    inner: TokioNotify,
}

impl Notify {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn notify_one(&self) {
        self.point.pass();
        self.inner.notify_one();
    }

    pub(crate) fn notify_waiters(&self) {
        self.point.pass();
        self.inner.notify_waiters();
    }

    pub(crate) fn notified(&self) -> Notified<'_> {
        self.point.pass();
        self.inner.notified()
    }
}

/// [`std::sync::OnceLock`], whose operations the scheduler sees.
#[derive(Debug)]
pub(crate) struct OnceLock<T> {
    point: SchedulePoint,
    inner: StdOnceLock<T>,
}

impl<T> OnceLock<T> {
    pub(crate) fn new() -> Self {
        Self { point: SchedulePoint::default(), inner: StdOnceLock::new() }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        self.point.pass();
        self.inner.get()
    }

    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        self.point.pass();
        self.inner.set(value)
    }

    /// `init` must not use a type of this module: the scheduler could then not run the thread that
    /// another thread waits for here.
    pub(crate) fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
        self.point.pass();
        self.inner.get_or_init(init)
    }
}

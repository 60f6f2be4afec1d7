use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::sync::{Notify, watch};

use super::clock::JobClock;
use crate::{lock::Core, schedule::WallTime, time::Timestamp};

/// Wakes whoever waits for a moment of the [checked clock](JobClock), from one task.
///
/// That clock may be set at any time, so it is looked at once a second at least.
#[derive(Debug)]
pub(super) struct Alarms {
    core: Arc<Core>,
    clock: JobClock,
    entries: Mutex<BTreeMap<(WallTime, u64), Waker>>,
    next_id: AtomicU64,
    changed: Notify,
    /// When the clock was looked at last, in ns of the steady clock; 0: never.
    looked: AtomicU64,
    /// How often the clock was set.
    jumps: watch::Sender<u64>,
}

pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Difference from the time that has passed from which on the clock counts as set.
const JUMP: Duration = Duration::from_secs(1);

impl Alarms {
    pub(super) fn new(core: Arc<Core>) -> Self {
        let entries = Mutex::default();
        let clock = JobClock::new(Arc::clone(&core));
        let (next_id, looked) = (AtomicU64::new(0), AtomicU64::new(0));
        let jumps = watch::Sender::new(0);
        Self { core, clock, entries, next_id, changed: Notify::new(), looked, jumps }
    }

    pub(super) fn now(&self) -> WallTime {
        WallTime::since_epoch(self.clock.wall())
    }

    /// See [`JobClock::limit`].
    pub(super) fn limit(&self) -> WallTime {
        self.clock.limit()
    }

    /// How often the clock was set, so that what was decided by it is to be decided anew.
    pub(super) fn jumps(&self) -> watch::Receiver<u64> {
        self.jumps.subscribe()
    }

    /// Completes when the clock shows `at`; never, if there is none.
    pub(super) fn at(self: &Arc<Self>, at: Option<WallTime>) -> Alarm {
        Alarm { alarms: Arc::clone(self), at, id: None }
    }

    /// When the task that wakes was polled last; [`Timestamp::ZERO`] before its first poll.
    pub(super) fn looked(&self) -> Timestamp {
        Timestamp::from_nanos(self.looked.load(Ordering::Relaxed))
    }

    /// Wakes until it is dropped.
    pub(super) async fn run(&self) {
        let mut last = (self.core.clock().now(), self.clock.wall());
        loop {
            let (at, wall) = (self.core.clock().now(), self.clock.wall());
            self.looked.store(at.as_nanos(), Ordering::Relaxed);
            let expected = last.1.saturating_add(at.saturating_duration_since(last.0));
            if expected.abs_diff(wall) > JUMP {
                self.jumps.send_modify(|jumps| *jumps += 1);
            }
            last = (at, wall);
            let now = WallTime::since_epoch(wall);
            let (due, next) = {
                let mut entries = crate::sync::lock(&self.entries);
                let later = entries.split_off(&(now, u64::MAX));
                let due = std::mem::replace(&mut *entries, later);
                (due, entries.first_key_value().map(|((at, _), _)| *at))
            };
            crate::sync::wake_all(due.into_values());
            let pause = next.map_or(LOOK_INTERVAL, |at| {
                let left = Duration::from_millis(at.as_millis()).saturating_sub(wall);
                left.clamp(Duration::from_micros(1), LOOK_INTERVAL)
            });
            let sleep = self.core.timers.sleep_until(self.core.clock().now() + pause);
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                () = sleep => {}
            }
        }
    }
}

/// See [`Alarms::at`].
#[derive(Debug)]
pub(super) struct Alarm {
    alarms: Arc<Alarms>,
    at: Option<WallTime>,
    id: Option<u64>,
}

impl Future for Alarm {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = self.at else { return Poll::Pending };
        if self.alarms.now() >= at {
            return Poll::Ready(());
        }
        let id = self.id.unwrap_or_else(|| self.alarms.next_id.fetch_add(1, Ordering::Relaxed));
        self.id = Some(id);
        let waker = cx.waker().clone();
        let (replaced, is_first) = {
            let mut entries = crate::sync::lock(&self.alarms.entries);
            let replaced = entries.insert((at, id), waker);
            (replaced, entries.first_key_value().is_some_and(|(key, _)| *key == (at, id)))
        };
        // Foreign code, which may drop an alarm.
        drop(replaced);
        if is_first {
            self.alarms.changed.notify_one();
        }
        Poll::Pending
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if let (Some(at), Some(id)) = (self.at, self.id) {
            let waker = crate::sync::lock(&self.alarms.entries).remove(&(at, id));
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;
    use crate::Redlock;

    #[test]
    fn an_alarm_that_nobody_waits_for_any_more_leaves_nothing() {
        let alarms = Arc::new(Alarms::new(Arc::clone(Redlock::embedded().core())));
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..10 {
            let mut alarm = pin!(alarms.at(Some(WallTime::MAX)));
            // Polled again, as by a task that was woken for something else.
            assert!(alarm.as_mut().poll(&mut cx).is_pending());
            assert!(alarm.as_mut().poll(&mut cx).is_pending());
            assert_eq!(crate::sync::lock(&alarms.entries).len(), 1);
        }
        assert_eq!(crate::sync::lock(&alarms.entries).len(), 0);
    }
}

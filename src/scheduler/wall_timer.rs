//! The checked wall clock, and the task that wakes jobs by it.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::sync::watch;

use crate::{
    lock::Redlock,
    schedule::WallTime,
    sync::{
        Mutex, Notify,
        atomic::{AtomicU64, Ordering},
    },
    time::Timestamp,
};

/// Tolerance for stored times that lie ahead: clocks of replicas and nodes differ.
const TOLERANCE: Duration = Duration::from_secs(60);

/// The wall clock that a quorum of nodes agrees on. While fewer are connected it continues from
/// there by this process's steady clock. Jumps of this machine's wall clock therefore decide
/// nothing and are never stored.
///
/// Where the nodes have no clocks of their own, it is this machine's wall clock, jumps included.
#[derive(Debug)]
pub(super) struct CheckedClock {
    redlock: Redlock,
    began: WallReading,
    /// The last one of a quorum.
    last: Mutex<Option<WallReading>>,
}

/// What a wall clock showed.
#[derive(Clone, Copy, Debug)]
struct WallReading {
    wall: Duration,
    at: Timestamp,
}

impl WallReading {
    /// What the clock shows at `now` if it was not set since.
    fn continued(self, now: Timestamp) -> Duration {
        self.wall.saturating_add(now.saturating_duration_since(self.at))
    }
}

impl CheckedClock {
    pub(super) fn new(redlock: Redlock) -> Self {
        let began = WallReading { wall: redlock.wall(), at: redlock.now() };
        Self { redlock, began, last: Mutex::new(None) }
    }

    /// The time since the Unix epoch.
    pub(super) fn wall(&self) -> Duration {
        let own = || self.redlock.wall();
        self.checked(self.redlock.now()).unwrap_or_else(own)
    }

    /// Stored times after this come from a wrong clock.
    pub(super) fn limit(&self) -> WallTime {
        let now = self.redlock.now();
        // The local clock may have been set back: times that were stored before do not lie in the future.
        let own = || self.redlock.wall().max(self.began.continued(now));
        let latest = self.checked(now).unwrap_or_else(own);
        WallTime::since_epoch(latest.saturating_add(TOLERANCE))
    }

    fn checked(&self, now: Timestamp) -> Option<Duration> {
        // Nodes are foreign code, so not under the mutex.
        let common = self.redlock.common_wall(now);
        let mut last = crate::sync::lock(&self.last);
        if let Some(wall) = common {
            *last = Some(WallReading { wall, at: now });
        }
        last.map(|last| last.continued(now))
    }
}

/// Wakes tasks at times of the [checked clock](CheckedClock), from one task.
///
/// The clock may be set at any time, so it is read at least once a second.
#[derive(Debug)]
pub(super) struct WallTimer {
    clock: CheckedClock,
    entries: Mutex<BTreeMap<(WallTime, u64), Waker>>,
    next_id: AtomicU64,
    changed: Notify,
    /// Time of the last reading, in ns of the steady clock; 0 before the first.
    looked: AtomicU64,
    /// Number of times that the clock was set.
    jumps: watch::Sender<u64>,
}

pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Deviation from the elapsed time above which the clock counts as set.
const JUMP_THRESHOLD: Duration = Duration::from_secs(1);

impl WallTimer {
    pub(super) fn new(redlock: Redlock) -> Self {
        let entries = Mutex::default();
        let clock = CheckedClock::new(redlock);
        let (next_id, looked) = (AtomicU64::new(0), AtomicU64::new(0));
        let jumps = watch::Sender::new(0);
        Self { clock, entries, next_id, changed: Notify::new(), looked, jumps }
    }

    pub(super) fn now(&self) -> WallTime {
        WallTime::since_epoch(self.clock.wall())
    }

    /// See [`CheckedClock::limit`].
    pub(super) fn limit(&self) -> WallTime {
        self.clock.limit()
    }

    /// Number of times that the clock was set: each change requires new decisions.
    pub(super) fn jumps(&self) -> watch::Receiver<u64> {
        self.jumps.subscribe()
    }

    /// Completes when the clock shows `at`; never, if there is none.
    pub(super) fn at(self: &Arc<Self>, at: Option<WallTime>) -> WallSleep {
        WallSleep { wall_timer: Arc::clone(self), at, id: None }
    }

    /// Time of the last poll of [`run`](Self::run); [`Timestamp::ZERO`] before the first.
    pub(super) fn looked(&self) -> Timestamp {
        Timestamp::from_nanos(self.looked.load(Ordering::Relaxed))
    }

    /// Wakes due tasks until it is dropped.
    pub(super) async fn run(&self) {
        let redlock = &self.clock.redlock;
        let mut last = (redlock.now(), self.clock.wall());
        loop {
            let (at, wall) = (redlock.now(), self.clock.wall());
            self.looked.store(at.as_nanos(), Ordering::Relaxed);
            let expected = last.1.saturating_add(at.saturating_duration_since(last.0));
            if expected.abs_diff(wall) > JUMP_THRESHOLD {
                self.jumps.send_modify(|jumps| *jumps += 1);
            }
            last = (at, wall);
            let now = WallTime::since_epoch(wall);
            let (due, next) = {
                let mut entries = crate::sync::lock(&self.entries);
                let later = entries.split_off(&(now, u64::MAX));
                let due = std::mem::replace(&mut *entries, later);
                debug_assert!(due.keys().all(|(at, _)| *at <= now), "no alarm comes early");
                (due, entries.first_key_value().map(|((at, _), _)| *at))
            };
            crate::sync::wake_all(due.into_values());
            let pause = next.map_or(LOOK_INTERVAL, |at| {
                let left = Duration::from_millis(at.as_millis()).saturating_sub(wall);
                left.clamp(Duration::from_micros(1), LOOK_INTERVAL)
            });
            let sleep = redlock.sleep_until(redlock.now() + pause);
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                () = sleep => {}
            }
        }
    }
}

/// See [`WallTimer::at`].
#[derive(Debug)]
pub(super) struct WallSleep {
    wall_timer: Arc<WallTimer>,
    at: Option<WallTime>,
    id: Option<u64>,
}

impl Future for WallSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = self.at else { return Poll::Pending };
        if self.wall_timer.now() >= at {
            return Poll::Ready(());
        }
        let id = self.id.unwrap_or_else(|| self.wall_timer.next_id.fetch_add(1, Ordering::Relaxed));
        self.id = Some(id);
        let waker = cx.waker().clone();
        let (replaced, is_first) = {
            let mut entries = crate::sync::lock(&self.wall_timer.entries);
            let replaced = entries.insert((at, id), waker);
            (replaced, entries.first_key_value().is_some_and(|(key, _)| *key == (at, id)))
        };
        // A waker is foreign code and may drop a sleep.
        drop(replaced);
        if is_first {
            self.wall_timer.changed.notify_one();
        }
        Poll::Pending
    }
}

impl Drop for WallSleep {
    fn drop(&mut self) {
        if let (Some(at), Some(id)) = (self.at, self.id) {
            let waker = crate::sync::lock(&self.wall_timer.entries).remove(&(at, id));
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
    fn dropped_alarm_leaves_no_entry() {
        let wall_timer = Arc::new(WallTimer::new(Redlock::embedded()));
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..10 {
            let mut alarm = pin!(wall_timer.at(Some(WallTime::MAX)));
            // Polled again, as by a task that was woken for something else.
            assert!(alarm.as_mut().poll(&mut cx).is_pending());
            assert!(alarm.as_mut().poll(&mut cx).is_pending());
            assert_eq!(crate::sync::lock(&wall_timer.entries).len(), 1);
        }
        assert_eq!(crate::sync::lock(&wall_timer.entries).len(), 0);
    }
}

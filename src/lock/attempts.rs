//! A limit of the attempts of a manager that are in flight (R5).
//!
//! Attempts beyond what the nodes answer within the node timeout all time out, and retries without
//! a backoff sustain the overload after its cause is gone. Therefore an attempt needs a permit.
//!
//! There are 256 permits at first. The delay of an attempt is the time until a quorum decided it,
//! less the shortest such time: the network round trip does not count as load. The limit grows by one for each
//! attempt with a delay of at most a quarter of the node timeout, while others wait for a permit. It
//! shrinks by an eighth when a delay is more than half of the node timeout, and by half when an
//! attempt times out; to 32 at least, and at most once in a node timeout. First attempts and retries
//! get permits in turn. A single attempt waits for a permit for one node timeout at most, and then
//! fails with `Overloaded`.
//!
//! Consecutive attempts without a quorum of answers double the pause, and a pause is at least the
//! last wait for a permit. Retries that no release prompts are 1 ms apart on average over all
//! waiters (0.25 ms if no quorum answers): each of 20,000 waiters retries every 20 s, and once when
//! the holder's key expires. Requests that wait for another process count towards
//! `max_waiters_in_total`.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use crate::{
    sync::{
        Guard, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Sleep, Timers, Timestamp},
};

/// Initial limit, in attempts. One where schedules are explored, so that few threads wait for
/// permits.
const INITIAL_LIMIT: usize = if cfg!(redlock_shuttle) { 1 } else { 256 };
/// Minimum limit, in attempts.
const MIN_LIMIT: usize = 32;

pub(crate) struct AttemptLimiter {
    timers: Arc<Timers>,
    limit: AtomicUsize,
    /// Shortest time until a decision, in ns. It grows while no attempt is prompt, as the nodes may
    /// have become slower for good.
    shortest: AtomicU64,
    in_flight: AtomicUsize,
    /// Length of the queue. Written with the queue locked.
    waiting: AtomicUsize,
    queue: Mutex<PermitQueue>,
}

#[derive(Default)]
struct PermitQueue {
    /// The queues of first attempts and of retries, which get permits in turn, by order of arrival.
    lanes: [BTreeMap<u64, Waker>; 2],
    next_lane: usize,
    next_id: u64,
    /// End of the time in which the limit is not lowered again, nor the shortest time raised: slow
    /// attempts until then began under the former limit.
    settled_at: Option<Timestamp>,
}

/// How an attempt ended, as a measure of the load of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptOutcome {
    /// The attempt asked all nodes at once, and a quorum answered after this time.
    Decided {
        took: Duration,
        node_timeout: Duration,
    },
    /// A quorum did not answer within the node timeout.
    TimedOut {
        node_timeout: Duration,
    },
    Unknown,
}

impl AttemptLimiter {
    pub(crate) fn new(timers: Arc<Timers>) -> Arc<Self> {
        Arc::new(Self {
            timers,
            limit: AtomicUsize::new(INITIAL_LIMIT),
            shortest: AtomicU64::new(u64::MAX),
            in_flight: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            queue: Mutex::default(),
        })
    }

    /// Returns a permit, unless the limit is reached or others wait for one.
    pub(crate) fn try_enter(self: &Arc<Self>) -> Option<Permit> {
        let is_free = self.waiting.load(Ordering::SeqCst) == 0 && self.take();
        is_free.then(|| self.permit())
    }

    /// Returns a wait for a permit, which ends at `until`.
    pub(crate) fn enter(self: &Arc<Self>, is_first: bool, until: Timestamp) -> PermitWait {
        PermitWait {
            attempts: Arc::clone(self),
            lane: usize::from(!is_first),
            id: None,
            since: self.timers.clock().now(),
            timeout: self.timers.sleep_until(until),
        }
    }

    fn take(&self) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        let next = |count| (count < limit).then_some(count + 1);
        self.in_flight.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).is_ok()
    }

    fn permit(self: &Arc<Self>) -> Permit {
        Permit { attempts: Arc::clone(self), outcome: AttemptOutcome::Unknown }
    }

    /// Joins the queue, and returns the id there; `None` if it took a free permit instead.
    fn join(&self, lane: usize, waker: Waker) -> Option<u64> {
        let mut queue = self.queue();
        let is_alone = self.waiting.fetch_add(1, Ordering::SeqCst) == 0;
        // An attempt that ended before this count passed its permit on to no waiter. That cannot
        // happen after other waiters: they were counted, or took the free permit.
        if is_alone && self.take() {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            return None;
        }
        let id = queue.next_id;
        queue.next_id += 1;
        queue.lanes[lane].insert(id, waker);
        Some(id)
    }

    fn leave(&self, outcome: AttemptOutcome) {
        self.adapt(outcome);
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        while self.waiting.load(Ordering::SeqCst) > 0 {
            let Some(next) = self.pass_on() else { return };
            crate::sync::wake(next);
        }
    }

    /// Adapts the limit.
    fn adapt(&self, outcome: AttemptOutcome) {
        match outcome {
            AttemptOutcome::Decided { took, node_timeout } => {
                let delay = self.delay(took);
                if delay <= node_timeout / 4 {
                    self.raise_limit();
                } else {
                    let is_slow = delay > node_timeout / 2;
                    self.settle(
                        node_timeout,
                        |limit| if is_slow { limit - limit / 8 } else { limit },
                    );
                }
            }
            AttemptOutcome::TimedOut { node_timeout } => {
                self.settle(node_timeout, |limit| limit / 2);
            }
            AttemptOutcome::Unknown => {}
        }
    }

    /// Returns how much longer than the shortest decision this one took.
    fn delay(&self, took: Duration) -> Duration {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let shortest = self.shortest.load(Ordering::Relaxed);
        if took < shortest {
            self.shortest.fetch_min(took, Ordering::Relaxed);
        }
        Duration::from_nanos(took.saturating_sub(shortest))
    }

    /// Raises the limit by one, if attempts wait.
    fn raise_limit(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.limit.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lowers the limit, and raises the shortest time by an eighth; at most once in a node timeout.
    fn settle(&self, node_timeout: Duration, lowered: impl FnOnce(usize) -> usize) {
        let now = self.timers.clock().now();
        let mut queue = self.queue();
        if queue.settled_at.is_none_or(|settled| now >= settled) {
            queue.settled_at = Some(now + node_timeout);
            let limit = lowered(self.limit.load(Ordering::Relaxed)).max(MIN_LIMIT);
            self.limit.store(limit, Ordering::Relaxed);
            let shortest = self.shortest.load(Ordering::Relaxed);
            self.shortest.store(shortest.saturating_add(shortest / 8 + 1), Ordering::Relaxed);
        }
    }

    /// Gives a free permit to the next in the queue. Returns its waker.
    fn pass_on(&self) -> Option<Waker> {
        let mut queue = self.queue();
        if queue.lanes.iter().all(BTreeMap::is_empty) || !self.take() {
            return None;
        }
        let lane = queue.next_lane;
        queue.next_lane = 1 - lane;
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        let [this, other] = [lane, 1 - lane];
        let next = queue.lanes[this].pop_first().or_else(|| queue.lanes[other].pop_first());
        next.map(|(_, waker)| waker)
    }

    fn queue(&self) -> Guard<'_, PermitQueue> {
        crate::sync::lock(&self.queue)
    }
}

opaque_debug!(AttemptLimiter);

/// The permit of one attempt to be in flight. Dropping it passes the permit on.
#[derive(Debug)]
pub(crate) struct Permit {
    attempts: Arc<AttemptLimiter>,
    outcome: AttemptOutcome,
}

impl Permit {
    /// Ends the attempt. Wakes tasks, so not to be called under a mutex.
    pub(crate) fn end(mut self, outcome: AttemptOutcome) {
        self.outcome = outcome;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.attempts.leave(self.outcome);
    }
}

/// A wait for a permit. Dropping it leaves the queue, and passes a received permit on.
pub(crate) struct PermitWait {
    attempts: Arc<AttemptLimiter>,
    lane: usize,
    /// The id in the queue, once it was polled.
    id: Option<u64>,
    since: Timestamp,
    timeout: Sleep,
}

impl PermitWait {
    /// Polls for a permit. Ready without one when the time is over. Must not be polled again then.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Permit>> {
        let waker = crate::sync::clone_waker(cx.waker());
        match self.id {
            None => {
                self.id = self.attempts.join(self.lane, waker);
                if self.id.is_none() {
                    return Poll::Ready(Some(self.attempts.permit()));
                }
            }
            Some(id) => {
                let mut queue = self.attempts.queue();
                let Some(known) = queue.lanes[self.lane].get_mut(&id) else {
                    drop(queue);
                    self.id = None;
                    return Poll::Ready(Some(self.attempts.permit()));
                };
                let replaced = std::mem::replace(known, waker);
                drop(queue);
                drop(replaced);
            }
        }
        if Pin::new(&mut self.timeout).poll(cx).is_pending() {
            return Poll::Pending;
        }
        let received = self.withdraw();
        Poll::Ready(received)
    }

    /// Returns the time since the wait began.
    pub(crate) fn waited(&self) -> Duration {
        self.attempts.timers.clock().now().saturating_duration_since(self.since)
    }

    /// Leaves the queue. Returns the permit that was received meanwhile.
    fn withdraw(&mut self) -> Option<Permit> {
        let id = self.id.take()?;
        let mut queue = self.attempts.queue();
        let waker = queue.lanes[self.lane].remove(&id);
        if waker.is_some() {
            self.attempts.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        drop(queue);
        waker.is_none().then(|| self.attempts.permit())
    }
}

impl Drop for PermitWait {
    fn drop(&mut self) {
        drop(self.withdraw());
    }
}

#[cfg(test)]
#[path = "tests/attempts.rs"]
mod tests;

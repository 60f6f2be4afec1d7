//! A bound on the attempts of a manager that are under way at once.
//!
//! Attempts beyond what the nodes answer within the node timeout all time out, and their retries
//! keep it so after the cause has gone. So there is a limit, and a line for the rest. The limit grows
//! while attempts wait and those under way are decided promptly, shrinks a little when they are
//! slow, and is halved when they time out: most of the time none does, as an attempt that times out
//! was work for nothing.

use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use super::queue::{Key, List};
use crate::{
    sync::Guard,
    time::{Sleep, Timers, Timestamp},
};

/// Initial limit, in attempts.
const INITIAL_LIMIT: usize = 256;
/// Smallest limit, in attempts.
const MIN_LIMIT: usize = 32;

pub(crate) struct Attempts {
    timers: Arc<Timers>,
    limit: AtomicUsize,
    under_way: AtomicUsize,
    /// Length of the line. Written with the line locked.
    waiting: AtomicUsize,
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    /// Requests that have made no attempt yet, and those that make another one, in turns.
    lanes: [List<Waker>; 2],
    next_lane: usize,
    next_id: u64,
    /// The limit is not lowered again before this moment: the attempts that are slow until then began
    /// under the former limit.
    settled_at: Option<Timestamp>,
}

/// How an attempt ended, as far as it tells whether the nodes keep up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// A quorum answered within a quarter of the node timeout.
    Prompt,
    /// A quorum answered within half the node timeout.
    InTime,
    /// A quorum answered after more than half the node timeout.
    Slow {
        node_timeout: Duration,
    },
    /// A quorum did not answer within the node timeout.
    TimedOut {
        node_timeout: Duration,
    },
    Unknown,
}

impl Attempts {
    pub(crate) fn new(timers: Arc<Timers>) -> Arc<Self> {
        Arc::new(Self {
            timers,
            limit: AtomicUsize::new(INITIAL_LIMIT),
            under_way: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            line: Mutex::default(),
        })
    }

    /// Returns a permit, unless the limit is reached or others wait for one.
    pub(crate) fn try_enter(self: &Arc<Self>) -> Option<Permit> {
        let is_free = self.waiting.load(Ordering::SeqCst) == 0 && self.take();
        is_free.then(|| self.permit())
    }

    /// A wait for a permit, until a moment at the latest.
    pub(crate) fn enter(self: &Arc<Self>, is_first: bool, until: Timestamp) -> Entry {
        Entry {
            attempts: Arc::clone(self),
            lane: usize::from(!is_first),
            key: None,
            since: self.timers.clock().now(),
            timeout: self.timers.sleep_until(until),
        }
    }

    fn take(&self) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        let next = |count| (count < limit).then_some(count + 1);
        self.under_way.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).is_ok()
    }

    fn permit(self: &Arc<Self>) -> Permit {
        Permit { attempts: Arc::clone(self), pace: Pace::Unknown }
    }

    /// Joins a line; `None` with a permit where one is free.
    fn join(&self, lane: usize, waker: Waker) -> Option<Key> {
        let mut queue = self.line();
        let is_alone = self.waiting.fetch_add(1, Ordering::SeqCst) == 0;
        // Whoever ended before it was counted has passed no permit on. Behind others there is one
        // who was counted, or was the first.
        if is_alone && self.take() {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            return None;
        }
        let id = queue.next_id;
        queue.next_id += 1;
        Some(queue.lanes[lane].push(id, waker))
    }

    fn leave(&self, pace: Pace) {
        self.adapt(pace);
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        while self.waiting.load(Ordering::SeqCst) > 0 {
            let Some(next) = self.pass_on() else { return };
            crate::sync::wake(next);
        }
    }

    /// Moves the limit.
    fn adapt(&self, pace: Pace) {
        match pace {
            Pace::Prompt => self.speed_up(usize::MAX),
            Pace::InTime => self.speed_up(INITIAL_LIMIT),
            // Far nodes are slow without any load: the initial limit stays.
            Pace::Slow { node_timeout } => self
                .slow_down(node_timeout, |limit| limit.min(INITIAL_LIMIT).max(limit - limit / 8)),
            Pace::TimedOut { node_timeout } => {
                self.slow_down(node_timeout, |limit| (limit / 2).max(MIN_LIMIT));
            }
            Pace::Unknown => {}
        }
    }

    /// Raises the limit by one, up to `most`, if attempts wait.
    fn speed_up(&self, most: usize) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            let raised = |limit| (limit < most).then_some(limit + 1);
            let _ = self.limit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, raised);
        }
    }

    fn slow_down(&self, node_timeout: Duration, lowered: impl FnOnce(usize) -> usize) {
        let now = self.timers.clock().now();
        let mut queue = self.line();
        if queue.settled_at.is_none_or(|settled| now >= settled) {
            queue.settled_at = Some(now + node_timeout);
            let limit = lowered(self.limit.load(Ordering::Relaxed));
            self.limit.store(limit, Ordering::Relaxed);
        }
    }

    /// Gives a free permit to the next in line; returns whom to wake.
    fn pass_on(&self) -> Option<Waker> {
        let mut queue = self.line();
        if queue.lanes.iter().all(List::is_empty) || !self.take() {
            return None;
        }
        let lane = queue.next_lane;
        queue.next_lane = 1 - lane;
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        let [this, other] = [lane, 1 - lane];
        queue.lanes[this].pop_first().or_else(|| queue.lanes[other].pop_first())
    }

    fn line(&self) -> Guard<'_, Line> {
        crate::sync::lock(&self.line)
    }
}

impl fmt::Debug for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempts")
            .field("limit", &self.limit)
            .field("under_way", &self.under_way)
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

/// Leave for one attempt to be under way. Dropping it lets the next in line begin.
#[derive(Debug)]
pub(crate) struct Permit {
    attempts: Arc<Attempts>,
    pace: Pace,
}

impl Permit {
    /// Ends the attempt. Wakes others: not to be called under a lock.
    pub(crate) fn end(mut self, pace: Pace) {
        self.pace = pace;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.attempts.leave(self.pace);
    }
}

/// A place in the line for a permit. Leaves it when dropped, and passes on what it was given.
pub(crate) struct Entry {
    attempts: Arc<Attempts>,
    lane: usize,
    key: Option<Key>,
    since: Timestamp,
    timeout: Sleep,
}

impl Entry {
    /// Ready with a permit, or without one when the time is over. Not to be polled again then.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Permit>> {
        match self.key {
            None => {
                self.key = self.attempts.join(self.lane, crate::sync::clone_waker(cx.waker()));
                if self.key.is_none() {
                    return Poll::Ready(Some(self.attempts.permit()));
                }
            }
            Some(key) => {
                let waker = crate::sync::clone_waker(cx.waker());
                let mut queue = self.attempts.line();
                let Some(known) = queue.lanes[self.lane].get_mut(key) else {
                    self.key = None;
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
        let given = self.withdraw();
        Poll::Ready(given)
    }

    /// Time since the wait began.
    pub(crate) fn waited(&self) -> Duration {
        self.attempts.timers.clock().now().saturating_duration_since(self.since)
    }

    /// Leaves the line; returns the permit that was given meanwhile.
    fn withdraw(&mut self) -> Option<Permit> {
        let key = self.key.take()?;
        let mut queue = self.attempts.line();
        let left = queue.lanes[self.lane].remove(key);
        if left.is_some() {
            self.attempts.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        drop(queue);
        left.is_none().then(|| self.attempts.permit())
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        drop(self.withdraw());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Clock, SystemClock};

    fn attempts(limit: usize) -> Arc<Attempts> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let attempts = Attempts::new(Arc::new(Timers::new(clock)));
        attempts.limit.store(limit, Ordering::Relaxed);
        attempts
    }

    fn poll(entry: &mut Entry) -> Poll<Option<Permit>> {
        entry.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[track_caller]
    fn given(entry: &mut Entry) -> Permit {
        match poll(entry) {
            Poll::Ready(Some(permit)) => permit,
            other => panic!("{other:?}"),
        }
    }

    fn lined_up(attempts: &Arc<Attempts>, is_first: bool) -> Entry {
        let mut entry = attempts.enter(is_first, Timestamp::MAX);
        assert!(poll(&mut entry).is_pending());
        entry
    }

    #[test]
    fn the_line_is_served_in_order() {
        let attempts = attempts(2);
        let permits = [attempts.try_enter().unwrap(), attempts.try_enter().unwrap()];
        assert!(attempts.try_enter().is_none());
        let [mut a, mut b] = [(), ()].map(|()| lined_up(&attempts, true));
        let [first, second] = permits;
        drop(first);
        assert!(attempts.try_enter().is_none(), "others came first");
        assert!(poll(&mut b).is_pending());
        let a = given(&mut a);
        drop((a, second));
        drop(given(&mut b));
        assert_eq!(attempts.under_way.load(Ordering::SeqCst), 0);
        assert!(attempts.try_enter().is_some());
    }

    #[test]
    fn first_attempts_and_retries_take_turns() {
        let attempts = attempts(1);
        let permit = attempts.try_enter().unwrap();
        let kinds = [false, false, false, true, true];
        let mut waiting: Vec<_> =
            kinds.iter().map(|is_first| (*is_first, lined_up(&attempts, *is_first))).collect();
        let mut served = Vec::new();
        drop(permit);
        while !waiting.is_empty() {
            // Dropping the permit gives it to the next.
            waiting.retain_mut(|(is_first, entry)| match poll(entry) {
                Poll::Ready(permit) => {
                    served.push((*is_first, permit.is_some()));
                    false
                }
                Poll::Pending => true,
            });
        }
        let order = [true, false, true, false, false];
        assert_eq!(served, order.map(|is_first| (is_first, true)));
    }

    #[test]
    fn leaving_the_line_loses_no_permit() {
        let attempts = attempts(1);
        let permit = attempts.try_enter().unwrap();
        let [a, b] = [(), ()].map(|()| lined_up(&attempts, true));
        let mut c = lined_up(&attempts, true);
        drop(b);
        drop(permit);
        // It was given the permit, and never fetched it.
        drop(a);
        drop(given(&mut c));
        assert_eq!(attempts.under_way.load(Ordering::SeqCst), 0);
        assert_eq!(attempts.waiting.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_wait_ends_in_time() {
        let attempts = attempts(1);
        let permit = attempts.try_enter().unwrap();
        let mut entry = attempts.enter(true, Timestamp::ZERO);
        assert!(matches!(poll(&mut entry), Poll::Ready(None)));
        assert_eq!(attempts.waiting.load(Ordering::SeqCst), 0);
        drop(permit);
        let mut late = attempts.enter(true, Timestamp::ZERO);
        drop(given(&mut late));
    }

    #[test]
    fn the_limit_follows_the_pace() {
        let attempts = attempts(100);
        let end = |pace| attempts.try_enter().unwrap().end(pace);
        let limit = || attempts.limit.load(Ordering::Relaxed);
        end(Pace::Prompt);
        assert_eq!(limit(), 100, "nobody waits");
        let late = Pace::TimedOut { node_timeout: Duration::from_secs(3600) };
        end(late);
        assert_eq!(limit(), 50);
        end(late);
        assert_eq!(limit(), 50, "it began under the former limit");
        attempts.line().settled_at = None;
        end(late);
        assert_eq!(limit(), MIN_LIMIT);
        let permits: Vec<_> = (0..MIN_LIMIT).map(|_| attempts.try_enter().unwrap()).collect();
        let _waiting = lined_up(&attempts, true);
        for permit in permits {
            permit.end(Pace::Prompt);
        }
        assert_eq!(limit(), MIN_LIMIT + 1, "one waited");
    }

    #[test]
    fn the_limit_stays_where_answers_are_neither_prompt_nor_late() {
        let attempts = attempts(INITIAL_LIMIT - 1);
        let limit = || attempts.limit.load(Ordering::Relaxed);
        attempts.waiting.store(1, Ordering::SeqCst);
        let [slow, in_time] =
            [Pace::Slow { node_timeout: Duration::from_secs(3600) }, Pace::InTime];
        let end = |pace| attempts.adapt(pace);
        end(in_time);
        end(in_time);
        assert_eq!(limit(), INITIAL_LIMIT);
        end(slow);
        assert_eq!(limit(), INITIAL_LIMIT);
        attempts.limit.store(2 * INITIAL_LIMIT, Ordering::Relaxed);
        end(slow);
        assert_eq!(limit(), 2 * INITIAL_LIMIT, "once in a node timeout");
        attempts.line().settled_at = None;
        end(slow);
        assert_eq!(limit(), 2 * INITIAL_LIMIT * 7 / 8);
        end(in_time);
        assert_eq!(limit(), 2 * INITIAL_LIMIT * 7 / 8);
        end(Pace::Prompt);
        assert_eq!(limit(), 2 * INITIAL_LIMIT * 7 / 8 + 1);
    }

    #[test]
    fn no_permit_is_lost_between_threads() {
        let attempts = attempts(3);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..6)
                .map(|worker| {
                    let attempts = &attempts;
                    scope.spawn(move || {
                        for _ in 0..2_000 {
                            let permit = attempts.try_enter().unwrap_or_else(|| {
                                let mut entry = attempts.enter(worker % 2 == 0, Timestamp::MAX);
                                let thread = std::thread::current();
                                let waker = Waker::from(Arc::new(Unpark(thread)));
                                let mut cx = Context::from_waker(&waker);
                                loop {
                                    match entry.poll(&mut cx) {
                                        Poll::Ready(permit) => break permit.unwrap(),
                                        Poll::Pending => std::thread::park(),
                                    }
                                }
                            });
                            drop(permit);
                        }
                    })
                })
                .collect();
            for worker in workers {
                worker.join().unwrap();
            }
        });
        assert_eq!(attempts.under_way.load(Ordering::SeqCst), 0);
        assert_eq!(attempts.waiting.load(Ordering::SeqCst), 0);
    }

    struct Unpark(std::thread::Thread);

    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
}

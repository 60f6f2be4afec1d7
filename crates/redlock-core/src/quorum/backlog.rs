//! Operations that a node has not acknowledged: releases (R8), and other ends. Each is sent again until
//! the node has acknowledged it, or it is moot.
//!
//! # Releases
//!
//! Every attempt has a fresh nonce, because the release of one attempt must not delete what the
//! next one was granted. A release is final only if the server ran it after the expiry, or the
//! deadline, of every operation that stayed unanswered, as a lost command may have travelled over
//! another connection. Until then it is *unsettled*: the node answered, and the release stays in the
//! backlog, at most until the key has expired. So does another end that the node refuses at present.
//!
//! # When an operation is repeated
//!
//! | the node | operations |
//! |---|---|
//! | does not answer | one at a time, with a backoff of 10 ms to 1 s |
//! | answers again | all, in batches, at once |
//! | answered, unsettled | together after 10 ms, then 20 ms, 40 ms, up to 1 s |
//!
//! A command of a broken connection runs when its server continues or the network delivers what it
//! held back: mostly before the server answers on the next connection, sometimes shortly after. So
//! the pauses are short at first, and the key that a late command stores is gone after about as long
//! as the command was late.

use std::{collections::VecDeque, time::Duration};

use crate::timestamp::Timestamp;

/// Maximum number of operations for one node; beyond it the oldest is dropped. The key of a release
/// then stays until it expires.
pub const CAPACITY: usize = 65_536;
/// Maximum number of operations in flight to a node that answers.
const BATCH: usize = 256;
/// The first pause before an operation is repeated.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// Maximum pause, except for [`PACE`].
const LAST_PAUSE: Duration = Duration::from_secs(1);
/// Maximum pause for each operation of a round: in the long run, thousands are repeated at 4,000 a
/// second.
const PACE: Duration = Duration::from_micros(250);

/// The operations that a node has not acknowledged.
///
/// A dead node costs one message a second, however many operations wait. Thousands of unsettled ones
/// cost a server a dozen rounds in the first seconds, and then at most 4,000 messages a second.
#[derive(Debug)]
pub struct Backlog<T> {
    waiting: VecDeque<BacklogEntry<T>>,
    /// Operations that the node answered, and that are not settled. They wait again from `repeat_at` on.
    unsettled: VecDeque<BacklogEntry<T>>,
    repeat_at: Timestamp,
    repeat_pause: Duration,
    in_flight: usize,
    retry_at: Timestamp,
    retry_pause: Duration,
    answering: bool,
    /// Whether operations were dropped since there were none.
    overflows: bool,
}

/// An operation to repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BacklogEntry<T> {
    /// What is sent: the lease to release.
    pub what: T,
    /// Time from which on it is moot: the key has expired.
    pub until: Timestamp,
}

/// An operation that was dropped because there were too many.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a dropped operation has to be reported"]
pub struct Dropped<T> {
    /// What is not sent any more.
    pub what: T,
    /// Whether it is the first one since the backlog was empty.
    pub is_first: bool,
}

impl<T> Default for Backlog<T> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            unsettled: VecDeque::new(),
            repeat_at: Timestamp::ZERO,
            repeat_pause: FIRST_PAUSE,
            in_flight: 0,
            retry_at: Timestamp::ZERO,
            retry_pause: FIRST_PAUSE,
            answering: false,
            overflows: false,
        }
    }
}

impl<T> Backlog<T> {
    /// Adds an operation that was not acknowledged. Returns whether another one had to be dropped.
    pub fn push(&mut self, entry: BacklogEntry<T>, now: Timestamp) -> Option<Dropped<T>> {
        if self.unacknowledged() == 0 {
            (self.retry_pause, self.repeat_pause) = (FIRST_PAUSE, FIRST_PAUSE);
            self.retry_at = now + FIRST_PAUSE;
            (self.answering, self.overflows) = (false, false);
        }
        let dropped = self.make_room();
        self.waiting.push_back(entry);
        self.check();
        dropped
    }

    /// Drops the oldest one if there is no room for another one.
    fn make_room(&mut self) -> Option<Dropped<T>> {
        if self.unacknowledged() < CAPACITY {
            return None;
        }
        let oldest = self.unsettled.pop_front().or_else(|| self.waiting.pop_front())?;
        let is_first = !std::mem::replace(&mut self.overflows, true);
        Some(Dropped { what: oldest.what, is_first })
    }

    fn check(&self) {
        assert!(self.unacknowledged() <= CAPACITY, "{} operations", self.unacknowledged());
        assert!(self.in_flight <= BATCH, "{} operations are in flight", self.in_flight);
    }

    /// Returns the operations to send now; each is followed by [`answered`](Self::answered),
    /// [`unsettled`](Self::unsettled) or [`failed`](Self::failed).
    pub fn take(&mut self, now: Timestamp) -> Vec<BacklogEntry<T>> {
        self.waiting.retain(|entry| now < entry.until);
        self.unsettled.retain(|entry| now < entry.until);
        if self.in_flight > 0 {
            return Vec::new();
        }
        if now >= self.repeat_at {
            self.waiting.append(&mut self.unsettled);
        }
        if !(self.answering || now >= self.retry_at) {
            return Vec::new();
        }
        let count = self.waiting.len().min(if self.answering { BATCH } else { 1 });
        self.in_flight = count;
        self.waiting.drain(..count).collect()
    }

    /// Records that the node answers again after an outage: all operations are due now.
    pub fn resumed(&mut self, now: Timestamp) {
        self.is_answering();
        (self.repeat_at, self.repeat_pause) = (now, FIRST_PAUSE);
    }

    fn is_answering(&mut self) {
        self.answering = true;
        self.retry_pause = FIRST_PAUSE;
    }

    /// Records that the node acknowledged an operation, for good.
    pub fn answered(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.is_answering();
    }

    /// Records that the node answered, and that the operation has to be repeated: a release whose lease may
    /// have operations that run later, or an end that it refuses at present.
    pub fn unsettled(&mut self, entry: BacklogEntry<T>, now: Timestamp) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.is_answering();
        if self.unsettled.is_empty() {
            self.repeat_at = now + self.repeat_pause;
            let pending = u32::try_from(self.unacknowledged()).unwrap_or(u32::MAX);
            let longest = LAST_PAUSE.max(PACE * pending);
            self.repeat_pause = (self.repeat_pause * 2).min(longest);
        }
        self.unsettled.push_back(entry);
        self.check();
    }

    /// Records that an operation that was taken is not sent, as it is moot.
    pub fn moot(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Records that the node did not answer. The failures of one batch count once for the
    /// backoff.
    pub fn failed(&mut self, entry: BacklogEntry<T>, now: Timestamp) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if std::mem::take(&mut self.answering) || now >= self.retry_at {
            self.retry_at = now + self.retry_pause;
            self.retry_pause = (self.retry_pause * 2).min(LAST_PAUSE);
        }
        self.waiting.push_back(entry);
        self.check();
    }

    /// Returns when [`take`](Self::take) returns operations; `None` while it waits for answers or is
    /// empty.
    pub fn next_wake(&self) -> Option<Timestamp> {
        if self.in_flight > 0 {
            return None;
        }
        let retry_at = if self.answering { Timestamp::ZERO } else { self.retry_at };
        let retry = (!self.waiting.is_empty()).then_some(retry_at);
        let repeat = (!self.unsettled.is_empty()).then_some(self.repeat_at.max(retry_at));
        retry.into_iter().chain(repeat).min()
    }

    /// Returns the number of operations that are not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.waiting.len() + self.unsettled.len() + self.in_flight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(ms)
    }

    fn entry(lease: u32, until: u64) -> BacklogEntry<u32> {
        BacklogEntry { what: lease, until: at(until) }
    }

    /// Releases that a node does not know yet, until a minute from now.
    fn pending(count: u32) -> Backlog<u32> {
        let mut backlog = Backlog::default();
        for lease in 0..count {
            assert_eq!(backlog.push(entry(lease, 60_000), at(0)), None);
        }
        backlog
    }

    /// Sends all releases that are due, which stay unsettled. Returns their number.
    fn send_unsettled(backlog: &mut Backlog<u32>, now: Timestamp) -> usize {
        let mut sent = 0;
        while backlog.next_wake().is_some_and(|due| due <= now) {
            let taken = backlog.take(now);
            sent += taken.len();
            for entry in taken {
                backlog.unsettled(entry, now);
            }
        }
        sent
    }

    #[test]
    fn silent_node_gets_one_with_backoff() {
        let mut backlog = pending(100);

        let mut gaps = Vec::new();
        let mut now = at(0);
        for _ in 0..9 {
            let next = backlog.next_wake().unwrap();
            gaps.push(next.saturating_duration_since(now).as_millis());
            now = next;
            let mut taken = backlog.take(now);
            assert_eq!(taken.len(), 1);
            assert_eq!(backlog.next_wake(), None, "one at a time");
            backlog.failed(taken.remove(0), now);
        }

        assert_eq!(gaps, [10, 10, 20, 40, 80, 160, 320, 640, 1000]);
        assert_eq!(backlog.unacknowledged(), 100);
    }

    #[test]
    fn answer_releases_rest_in_batches() {
        let mut backlog = pending(400);

        assert_eq!(backlog.take(at(50)).len(), 1);
        backlog.answered();
        assert_eq!(backlog.next_wake(), Some(Timestamp::ZERO));
        assert_eq!(backlog.take(at(51)).len(), 256);
        assert_eq!(backlog.take(at(51)).len(), 0, "the batch is in flight");
        (0..256).for_each(|_| backlog.answered());
        assert_eq!(backlog.take(at(52)).len(), 143);
        (0..143).for_each(|_| backlog.answered());

        assert_eq!(backlog.unacknowledged(), 0);
    }

    #[test]
    fn unsettled_answer_releases_rest_at_once() {
        let mut backlog = pending(1_000);

        assert_eq!(send_unsettled(&mut backlog, at(10)), 1_000);

        assert_eq!(backlog.unacknowledged(), 1_000, "none is final");
    }

    #[test]
    fn unsettled_releases_are_repeated_soon_then_less_often() {
        let mut backlog = pending(1_000);
        assert_eq!(send_unsettled(&mut backlog, at(10)), 1_000);

        let mut gaps = Vec::new();
        let mut now = at(10);
        for _ in 0..9 {
            let next = backlog.next_wake().unwrap();
            gaps.push(next.saturating_duration_since(now).as_millis());
            now = next;
            assert_eq!(send_unsettled(&mut backlog, now), 1_000, "all in each round");
        }

        assert_eq!(gaps, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
    }

    #[test]
    fn rounds_of_many_unsettled_releases_slow_down() {
        let mut backlog = pending(20_000);
        let mut now = at(10);

        let mut gap = Duration::ZERO;
        for _ in 0..12 {
            assert_eq!(send_unsettled(&mut backlog, now), 20_000);
            let next = backlog.next_wake().unwrap();
            gap = next.saturating_duration_since(now);
            now = next;
        }

        assert!(gap > Duration::from_millis(4_900), "more than 4,000 a second: {gap:?}");
    }

    #[test]
    fn node_that_returns_gets_all_at_once() {
        let mut backlog = pending(100);
        for _ in 0..8 {
            let now = backlog.next_wake().unwrap();
            let taken = backlog.take(now);
            for entry in taken {
                backlog.failed(entry, now);
            }
        }
        let now = at(1_300);
        assert!(backlog.next_wake().unwrap() > now, "the backoff goes on");

        backlog.resumed(now);

        assert_eq!(send_unsettled(&mut backlog, now), 100);
        assert_eq!(backlog.next_wake(), Some(at(1_310)), "they are repeated soon");
    }

    #[test]
    fn node_that_returns_gets_unsettled_again_soon() {
        let mut backlog = pending(1);
        for now in [10, 20, 40, 80, 160, 320] {
            assert_eq!(send_unsettled(&mut backlog, at(now)), 1);
        }

        backlog.resumed(at(330));

        assert_eq!(send_unsettled(&mut backlog, at(330)), 1);
        assert_eq!(backlog.next_wake(), Some(at(340)));
    }

    #[test]
    fn failed_batch_counts_once_for_backoff() {
        let mut backlog = pending(100);
        backlog.resumed(at(5));

        let taken = backlog.take(at(5));
        assert_eq!(taken.len(), 100);
        for entry in taken {
            backlog.failed(entry, at(7));
        }

        assert_eq!(backlog.next_wake(), Some(at(17)));
        assert_eq!(backlog.take(at(17)).len(), 1, "the node is silent");
    }

    #[test]
    fn releases_in_flight_keep_backoff() {
        let mut backlog = pending(1);

        let taken = backlog.take(at(50));
        assert_eq!(backlog.unacknowledged(), 1, "it is in flight");
        assert_eq!(backlog.push(entry(2, 60_000), at(60)), None);
        backlog.failed(taken[0].clone(), at(70));
        assert_eq!(backlog.take(at(120)).len(), 1);
        backlog.failed(entry(1, 60_000), at(120));
        assert_eq!(backlog.next_wake(), Some(at(140)), "the pause has doubled");
        assert_eq!(backlog.push(entry(3, 60_000), at(130)), None);

        assert_eq!(backlog.next_wake(), Some(at(140)));
        assert_eq!(backlog.unacknowledged(), 3);
    }

    #[test]
    fn expired_releases_are_dropped() {
        let mut backlog = Backlog::default();
        assert_eq!(backlog.push(entry(1, 100), at(0)), None);
        assert_eq!(backlog.push(entry(2, 5_000), at(0)), None);
        let taken = backlog.take(at(100));
        assert_eq!(taken, [entry(2, 5_000)]);
        backlog.unsettled(entry(2, 5_000), at(100));
        assert!(backlog.take(at(5_000)).is_empty());
        assert_eq!(backlog.unacknowledged(), 0);
    }

    fn last() -> u32 {
        u32::try_from(CAPACITY).unwrap()
    }

    #[test]
    fn full_backlog_drops_oldest_and_reports_it() {
        let mut backlog = pending(last());

        assert_eq!(
            backlog.push(entry(last(), 60_000), at(0)),
            Some(Dropped { what: 0, is_first: true })
        );
        assert_eq!(
            backlog.push(entry(last() + 1, 60_000), at(0)),
            Some(Dropped { what: 1, is_first: false })
        );

        assert_eq!(backlog.unacknowledged(), CAPACITY);
        assert_eq!(backlog.take(at(50)), [entry(2, 60_000)]);
    }

    #[test]
    fn later_overflow_is_reported_again() {
        let mut backlog = pending(last());
        assert!(backlog.push(entry(last(), 60_000), at(0)).is_some());
        assert!(backlog.take(at(60_000)).is_empty(), "all have expired");

        for lease in 0..last() {
            assert_eq!(backlog.push(entry(lease, 120_000), at(60_000)), None);
        }
        let dropped = backlog.push(entry(last(), 120_000), at(60_000));

        assert_eq!(dropped, Some(Dropped { what: 0, is_first: true }));
    }

    #[test]
    fn unanswered_release_does_not_lift_the_limit() {
        for is_answered in [false, true] {
            let mut backlog = pending(last());

            let taken = backlog.take(at(50));
            assert!(backlog.push(entry(last(), 60_000), at(60)).is_some());
            if is_answered {
                backlog.unsettled(taken[0].clone(), at(70));
            } else {
                backlog.failed(taken[0].clone(), at(70));
            }
            assert!(backlog.push(entry(last() + 1, 60_000), at(80)).is_some());

            assert_eq!(backlog.unacknowledged(), CAPACITY);
        }
    }
}

//! Releases that a node has not acknowledged (R8): each is sent again until the node answers or the
//! key has expired.
//!
//! Every attempt has a fresh nonce, because the release of one attempt must not delete what the
//! next one was granted. A release is final only if the server ran it after the expiry, or the
//! deadline, of every operation that stayed unanswered, as a lost command may have travelled over
//! another connection. Until then it stays among the pending releases, at most until the key has
//! expired.

use std::{collections::VecDeque, time::Duration};

use crate::timestamp::Timestamp;

/// Maximum number of releases for one node; beyond it the oldest is dropped, and its TTL frees the
/// key.
pub const CAPACITY: usize = 65_536;
/// Maximum number of releases in flight to a node that answers again.
const BATCH: usize = 64;
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LAST_RETRY: Duration = Duration::from_secs(1);

/// The releases that a node has not acknowledged.
///
/// While the node does not answer, one release at a time is sent, with a backoff; once it answers,
/// the rest follow in batches. A dead node costs one message a second, however many releases wait.
#[derive(Debug)]
pub struct PendingReleases<T> {
    waiting: VecDeque<PendingRelease<T>>,
    in_flight: usize,
    retry: Duration,
    retry_at: Timestamp,
    answering: bool,
}

/// A release to repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingRelease<T> {
    /// The lease to release.
    pub lease: T,
    /// Time at which its key has expired.
    pub until: Timestamp,
}

impl<T> Default for PendingReleases<T> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            in_flight: 0,
            retry: FIRST_RETRY,
            retry_at: Timestamp::ZERO,
            answering: false,
        }
    }
}

impl<T> PendingReleases<T> {
    /// Adds a release that was not acknowledged.
    pub fn push(&mut self, entry: PendingRelease<T>, now: Timestamp) {
        if self.waiting.is_empty() && self.in_flight == 0 {
            self.retry = FIRST_RETRY;
            self.retry_at = now + FIRST_RETRY;
            self.answering = false;
        }
        self.add(entry);
    }

    fn add(&mut self, entry: PendingRelease<T>) {
        if self.unacknowledged() >= CAPACITY {
            self.waiting.pop_front();
        }
        self.waiting.push_back(entry);
        assert!(self.unacknowledged() <= CAPACITY, "{} releases", self.unacknowledged());
        assert!(self.in_flight <= BATCH, "{} releases are in flight", self.in_flight);
    }

    /// Returns the releases to send now; each is followed by [`answered`](Self::answered) or
    /// [`failed`](Self::failed).
    pub fn take(&mut self, now: Timestamp) -> Vec<PendingRelease<T>> {
        self.waiting.retain(|entry| now < entry.until);
        if self.in_flight > 0 || !(self.answering || now >= self.retry_at) {
            return Vec::new();
        }
        let count = self.waiting.len().min(if self.answering { BATCH } else { 1 });
        self.in_flight = count;
        self.waiting.drain(..count).collect()
    }

    /// Records that the node acknowledged a release.
    pub fn answered(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.answering = true;
        self.retry = FIRST_RETRY;
    }

    /// Records that an operation that was taken is not sent, as it is moot.
    pub fn moot(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Records that a repeated release was not acknowledged.
    pub fn failed(&mut self, entry: PendingRelease<T>, now: Timestamp) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.answering = false;
        self.retry_at = now + self.retry;
        self.retry = (self.retry * 2).min(LAST_RETRY);
        self.add(entry);
    }

    /// Returns when [`take`](Self::take) returns releases; `None` while it waits for answers or is
    /// empty.
    pub fn next_wake(&self) -> Option<Timestamp> {
        if self.waiting.is_empty() || self.in_flight > 0 {
            return None;
        }
        Some(if self.answering { Timestamp::ZERO } else { self.retry_at })
    }

    /// Returns the number of releases that are not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.waiting.len() + self.in_flight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(ms)
    }

    fn entry(lease: u32, until: u64) -> PendingRelease<u32> {
        PendingRelease { lease, until: at(until) }
    }

    #[test]
    fn silent_node_gets_one_with_backoff() {
        let mut backlog = PendingReleases::default();

        for lease in 0..100 {
            backlog.push(entry(lease, 60_000), at(0));
        }
        let mut gaps = Vec::new();
        let mut now = at(0);
        for _ in 0..7 {
            let next = backlog.next_wake().unwrap();
            gaps.push(next.saturating_duration_since(now).as_millis());
            now = next;
            let mut taken = backlog.take(now);
            assert_eq!(taken.len(), 1);
            assert_eq!(backlog.next_wake(), None, "one at a time");
            backlog.failed(taken.remove(0), now);
        }

        assert_eq!(gaps, [50, 50, 100, 200, 400, 800, 1000]);
        assert_eq!(backlog.unacknowledged(), 100);
    }

    #[test]
    fn answer_releases_rest_in_batches() {
        let mut backlog = PendingReleases::default();

        for lease in 0..100 {
            backlog.push(entry(lease, 60_000), at(0));
        }
        assert_eq!(backlog.take(at(50)).len(), 1);
        backlog.answered();
        assert_eq!(backlog.next_wake(), Some(Timestamp::ZERO));
        assert_eq!(backlog.take(at(51)).len(), 64);
        assert_eq!(backlog.take(at(51)).len(), 0, "the batch is in flight");
        (0..64).for_each(|_| backlog.answered());
        assert_eq!(backlog.take(at(52)).len(), 35);
        (0..35).for_each(|_| backlog.answered());

        assert_eq!(backlog.unacknowledged(), 0);
    }

    #[test]
    fn releases_in_flight_keep_backoff() {
        let mut backlog = PendingReleases::default();

        backlog.push(entry(1, 60_000), at(0));
        let taken = backlog.take(at(50));
        assert_eq!(backlog.unacknowledged(), 1, "it is in flight");
        backlog.push(entry(2, 60_000), at(60));
        backlog.failed(taken[0].clone(), at(70));
        assert_eq!(backlog.take(at(120)).len(), 1);
        backlog.failed(entry(1, 60_000), at(120));
        assert_eq!(backlog.next_wake(), Some(at(220)), "the pause has doubled");
        backlog.push(entry(3, 60_000), at(130));

        assert_eq!(backlog.next_wake(), Some(at(220)));
        assert_eq!(backlog.unacknowledged(), 3);
    }

    #[test]
    fn expired_releases_are_dropped() {
        let mut backlog = PendingReleases::default();
        backlog.push(entry(1, 100), at(0));
        backlog.push(entry(2, 5_000), at(0));
        let taken = backlog.take(at(100));
        assert_eq!(taken, [entry(2, 5_000)]);
    }

    #[test]
    fn full_backlog_drops_oldest() {
        let mut backlog = PendingReleases::default();
        for lease in 0..=u32::try_from(CAPACITY).unwrap() {
            backlog.push(entry(lease, 60_000), at(0));
        }
        assert_eq!(backlog.unacknowledged(), CAPACITY);
        assert_eq!(backlog.take(at(50)), [entry(1, 60_000)]);
    }

    #[test]
    fn failed_release_does_not_lift_the_limit() {
        let mut backlog = PendingReleases::default();
        let last = u32::try_from(CAPACITY).unwrap();
        (0..last).for_each(|lease| backlog.push(entry(lease, 60_000), at(0)));

        let taken = backlog.take(at(50));
        backlog.push(entry(last, 60_000), at(60));
        backlog.failed(taken[0].clone(), at(70));
        backlog.push(entry(last + 1, 60_000), at(80));

        assert_eq!(backlog.unacknowledged(), CAPACITY);
    }
}

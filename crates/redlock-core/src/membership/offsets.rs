//! R10: tracks the offset of each server's clock. A server whose clock jumped may have expired keys
//! too early.
//!
//! Every answer to a vote contains the server's TIME. With the times of sending and receiving it
//! gives an interval for the offset of that clock. All intervals of the last `max_ttl` have to
//! intersect, within the drift of the time between them. A slow answer makes a wide interval, not a
//! jump.
//!
//! # Steps that are not seen
//!
//! Two clients matter: the holder of a lock, and the client that is granted it next. A step forward ends
//! the holder's keys early. If it comes after the holder's last reading, only the next client can see
//! it, by the reading that judges its own grant; and that reading shows no step up to
//! [`unseen_step`](formulas::unseen_step), which grows with the time since this client's reading
//! before. So clocks are read each second, also by a client without requests, and every lock sets
//! [aside](formulas::slack) more than such a step, however short it is. The holder's own readings are a
//! second guard: once the steps that it sees exceed what the lock sets aside, it is lost.
//!
//! A step before the holder's request ends no key early: the keys of an acquire live until a time that
//! counts from the latest time that the clock can show without a step that the answer would show, and
//! a renewal sets a TTL. A step back lets keys live longer.
//!
//! # Jumps that are seen
//!
//! If the intervals do not intersect, the node's vote is void at once, the node grants nothing for
//! `max_ttl`, and what it granted to held locks before no longer counts: a lock that is left with
//! fewer than q sound votes is lost. Renewing a key that still exists counts, since it depends only
//! on the time from now on: only later jumps void it, once they add up to more than the lock sets
//! aside.
//!
//! Limits: a jump that is taken back between two readings, or precedes a client's first reading, is
//! missed. A client that could not read the clock for longer than [`formulas::READING_AGE`], as it was
//! stopped or cut off, misses larger steps than others do. Several steps within a TTL that are each too
//! small to be seen may add up to more than the lock sets aside, as may a clock that is slewed by more
//! than the drift factor.

use std::{collections::VecDeque, time::Duration};

use crate::{
    protocol::formulas,
    switches::{self, Switch},
    timestamp::Timestamp,
};

/// Bounds on the offset of a server's clock from the local clock, in µs; positive where the server
/// is ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Lower bound.
    pub low: i64,
    /// Upper bound.
    pub high: i64,
}

impl Interval {
    /// Computes the bounds from a server's time that was read between `sent` and `received`.
    pub fn new(sent: Timestamp, received: Timestamp, server_micros: u64) -> Self {
        let micros = |at: Timestamp| i64::try_from(at.as_nanos() / 1_000).unwrap_or(i64::MAX);
        let server = i64::try_from(server_micros).unwrap_or(i64::MAX);
        // Both clocks are truncated to whole µs.
        Self {
            low: server.saturating_sub(micros(received)).saturating_sub(1),
            high: server.saturating_sub(micros(sent)).saturating_add(1),
        }
    }
}

/// The result of a reading of a server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// No jump.
    Steady,
    /// The clock jumped.
    Jumped {
        /// Bounds on the size of the jump, in µs.
        by: Interval,
        /// When the latest reading without the jump was sent.
        since: Timestamp,
    },
}

/// How far a server's clock can have advanced ahead of the local clock between earlier readings and
/// a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift {
    /// When the first of the earlier readings was received.
    pub from: Timestamp,
    /// When the later reading was sent.
    pub asked: Timestamp,
    /// Upper bound of the advance, in µs.
    pub at_most: i64,
}

/// The readings of one server's clock over the last `max_ttl`.
#[derive(Debug)]
pub struct Offsets {
    window: Duration,
    /// Drift allowance as a fraction of elapsed time.
    drift_factor: f64,
    buckets: VecDeque<Bucket>,
    latest: Option<Latest>,
    /// The readings before the latest jump. They are restored if the jump was a pause of the local
    /// clock.
    before: Option<(VecDeque<Bucket>, Timestamp)>,
    barred_until: Timestamp,
}

/// The latest reading, with the times of sending and receiving.
#[derive(Clone, Copy, Debug)]
struct Latest {
    reading: Interval,
    asked: Timestamp,
    received: Timestamp,
}

/// Readings of one period: the greatest lower and the least upper bound stand for all.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// When the first of them was sent: the server may have read its clock so early.
    asked: Timestamp,
    from: Timestamp,
    to: Timestamp,
    low: i64,
    high: i64,
}

const BUCKETS: u32 = 8;

impl Offsets {
    /// Discards all readings, because the node is another server from now on.
    pub fn forget(&mut self) {
        *self = Self::new(self.window, self.drift_factor);
    }

    /// Creates an empty history that keeps readings for `window`.
    pub fn new(window: Duration, drift_factor: f64) -> Self {
        Self {
            window,
            drift_factor,
            buckets: VecDeque::new(),
            latest: None,
            before: None,
            barred_until: Timestamp::ZERO,
        }
    }

    /// Returns the time for which readings are kept.
    pub fn window(&self) -> Duration {
        self.window
    }

    /// Sets the time for which readings are kept.
    pub fn set_window(&mut self, window: Duration) {
        self.window = window;
    }

    /// Returns how far a reading sent at `asked` and received at `now` shows the clock to have
    /// advanced; `None` without an earlier reading. Call it before [`observe`](Self::observe).
    pub fn shift(&self, reading: Interval, asked: Timestamp, now: Timestamp) -> Option<Shift> {
        let from = self.buckets.front()?.from;
        let latest = self.latest.map(Bucket::of);
        let known = latest.iter().chain(&self.buckets);
        let shifts = known.map(|known| known.most_ahead(reading, now, self.drift_factor));
        Some(Shift { from, asked, at_most: shifts.min()? })
    }

    /// Records a reading sent at `asked` and received at `now`.
    pub fn observe(&mut self, reading: Interval, asked: Timestamp, now: Timestamp) -> Reading {
        let latest = self.latest.replace(Latest { reading, asked, received: now });
        while self.buckets.front().is_some_and(|bucket| bucket.to + self.window < now) {
            self.buckets.pop_front();
        }
        let apart = |known: &Bucket| known.apart(reading, now, self.drift_factor);
        // The latest reading is compared first, because it bounds the size of a single jump.
        let from_latest =
            latest.and_then(|latest| Some((apart(&Bucket::of(latest))?, latest.asked)));
        let from_earlier = || self.buckets.iter().find_map(|b| Some((apart(b)?, b.from)));
        if let Some((by, since)) = from_latest.or_else(from_earlier)
            && !switches::is_out(Switch::JumpDetection)
        {
            let old = std::mem::take(&mut self.buckets);
            self.before = Some((old, self.barred_until));
            self.buckets.push_back(Bucket::new(reading, asked, now));
            self.barred_until = now + self.window;
            return Reading::Jumped { by, since };
        }
        match self.buckets.back_mut() {
            Some(bucket) if now < bucket.from + self.window / BUCKETS => {
                bucket.low = bucket.low.max(reading.low);
                bucket.high = bucket.high.min(reading.high);
                bucket.to = now;
            }
            _ => self.buckets.push_back(Bucket::new(reading, asked, now)),
        }
        Reading::Steady
    }

    /// Returns whether the node must not grant now; it may renew existing keys.
    pub fn is_barred(&self, now: Timestamp) -> bool {
        now < self.barred_until
    }

    /// Returns until when the node must not grant.
    pub fn barred_until(&self) -> Timestamp {
        self.barred_until
    }

    /// Returns the minimum by which the server's clock is ahead, in µs. A slow answer does not
    /// lower a bound that an earlier answer showed.
    pub fn ahead(&self) -> Option<i64> {
        self.buckets.iter().map(|bucket| bucket.low).max()
    }

    /// Widens all bounds after the local clock was put forward, by up to `by` too much.
    pub fn widen(&mut self, by: Duration) {
        let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        let before = self.before.iter_mut().flat_map(|(buckets, _)| buckets);
        for bucket in self.buckets.iter_mut().chain(before) {
            bucket.low = bucket.low.saturating_sub(by);
        }
        if let Some(Latest { reading, .. }) = &mut self.latest {
            reading.low = reading.low.saturating_sub(by);
        }
    }

    /// Restores the readings from before the jump, which was a pause of the local clock, since
    /// corrected.
    pub fn forgive(&mut self) {
        if let Some((buckets, barred_until)) = self.before.take() {
            self.buckets = buckets;
            self.barred_until = barred_until;
            // The times of the latest reading precede the correction.
            self.latest = None;
        }
    }
}

impl Bucket {
    fn new(reading: Interval, asked: Timestamp, now: Timestamp) -> Self {
        Self { asked, from: now, to: now, low: reading.low, high: reading.high }
    }

    fn of(latest: Latest) -> Self {
        Self::new(latest.reading, latest.asked, latest.received)
    }

    /// Returns the maximum by which a reading can be ahead of these, clock drift included.
    fn most_ahead(&self, reading: Interval, now: Timestamp, drift_factor: f64) -> i64 {
        reading.high.saturating_sub(self.low).saturating_add(self.drift(now, drift_factor))
    }

    /// Returns the maximum drift since these readings, in µs.
    fn drift(&self, now: Timestamp, drift_factor: f64) -> i64 {
        let drift = formulas::drift(now.saturating_duration_since(self.asked), drift_factor);
        i64::try_from(drift.as_micros()).unwrap_or(i64::MAX)
    }

    /// Returns the difference between a reading and these, if it exceeds the possible drift.
    fn apart(&self, reading: Interval, now: Timestamp, drift_factor: f64) -> Option<Interval> {
        let allowed = self.drift(now, drift_factor);
        let low = reading.low.saturating_sub(self.high);
        let high = reading.high.saturating_sub(self.low);
        (low > allowed || high < -allowed).then_some(Interval { low, high })
    }
}

#[cfg(test)]
#[path = "offsets_tests.rs"]
mod tests;

//! R10: tracks the offset of each server's clock; a server whose clock jumped may have expired keys
//! too early.
//!
//! Every answer carries the server's time; with the times of sending and receiving it gives an
//! interval for the clock's offset. Slow answers give wide intervals and never show a jump.
//!
//! Two readings may differ by the drift allowance of the time between them. A lock subtracts the
//! allowance for its own TTL, and the node was read when it granted: so a jump too small to be seen
//! is covered, however short the TTL is compared with `max_ttl`.

use std::{collections::VecDeque, time::Duration};

use crate::{
    protocol::formulas,
    switches::{self, Switch},
    time::Timestamp,
};

/// Bounds on the offset of a server's clock from the local clock, in µs; positive where the server
/// is ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    /// The least.
    pub low: i64,
    /// The most.
    pub high: i64,
}

impl Interval {
    /// From a server's time that was read between `sent` and `received`.
    pub(crate) fn new(sent: Timestamp, received: Timestamp, server_micros: u64) -> Self {
        let micros = |at: Timestamp| i64::try_from(at.as_nanos() / 1_000).unwrap_or(i64::MAX);
        let server = i64::try_from(server_micros).unwrap_or(i64::MAX);
        // Both clocks are cut to whole µs.
        Self {
            low: server.saturating_sub(micros(received)).saturating_sub(1),
            high: server.saturating_sub(micros(sent)).saturating_add(1),
        }
    }
}

/// The result of a reading of a server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// No jump.
    Steady,
    /// It jumped.
    Jumped {
        /// By how much.
        by: Interval,
        /// When the latest reading without the jump was sent.
        since: Timestamp,
    },
}

/// How far a server's clock can have advanced ahead of the local clock between earlier readings and
/// a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shift {
    /// When the first of the earlier readings was received.
    pub from: Timestamp,
    /// When the later reading was sent.
    pub asked: Timestamp,
    /// The most, in µs.
    pub at_most: i64,
}

/// The readings of one server's clock over the last `max_ttl`.
#[derive(Debug)]
pub(crate) struct Offsets {
    window: Duration,
    /// Drift allowance as a fraction of elapsed time.
    drift_factor: f64,
    buckets: VecDeque<Bucket>,
    latest: Option<Latest>,
    /// The readings before the latest jump, restored if that was a pause of the local clock.
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
    from: Timestamp,
    to: Timestamp,
    low: i64,
    high: i64,
}

const BUCKETS: u32 = 8;

impl Offsets {
    /// No history yet. Readings are kept for `window`.
    pub(crate) fn new(window: Duration, drift_factor: f64) -> Self {
        Self {
            window,
            drift_factor,
            buckets: VecDeque::new(),
            latest: None,
            before: None,
            barred_until: Timestamp::ZERO,
        }
    }

    /// Sets the time for which readings are kept.
    pub(crate) fn set_window(&mut self, window: Duration) {
        self.window = window;
    }

    /// Returns how far a reading sent at `asked` and received at `now` shows the clock to have
    /// advanced; `None` without an earlier reading. Call it before [`observe`](Self::observe).
    pub(crate) fn shift(
        &self,
        reading: Interval,
        asked: Timestamp,
        now: Timestamp,
    ) -> Option<Shift> {
        let from = self.buckets.front()?.from;
        let latest = self.latest.map(Bucket::of);
        let known = latest.iter().chain(&self.buckets);
        let shifts = known.map(|known| known.most_ahead(reading, now, self.drift_factor));
        Some(Shift { from, asked, at_most: shifts.min()? })
    }

    /// Records a reading sent at `asked` and received at `now`.
    pub(crate) fn observe(
        &mut self,
        reading: Interval,
        asked: Timestamp,
        now: Timestamp,
    ) -> Reading {
        let latest = self.latest.replace(Latest { reading, asked, received: now });
        while self.buckets.front().is_some_and(|bucket| bucket.to + self.window < now) {
            self.buckets.pop_front();
        }
        let apart = |known: &Bucket| known.apart(reading, now, self.drift_factor);
        // The latest first: it shows how far a single jump went.
        let from_latest =
            latest.and_then(|latest| Some((apart(&Bucket::of(latest))?, latest.asked)));
        let from_earlier = || self.buckets.iter().find_map(|b| Some((apart(b)?, b.from)));
        if let Some((by, since)) = from_latest.or_else(from_earlier)
            && !switches::is_out(Switch::JumpDetection)
        {
            let old = std::mem::take(&mut self.buckets);
            self.before = Some((old, self.barred_until));
            self.buckets.push_back(Bucket::new(reading, now));
            self.barred_until = now + self.window;
            return Reading::Jumped { by, since };
        }
        match self.buckets.back_mut() {
            Some(bucket) if now < bucket.from + self.window / BUCKETS => {
                bucket.low = bucket.low.max(reading.low);
                bucket.high = bucket.high.min(reading.high);
                bucket.to = now;
            }
            _ => self.buckets.push_back(Bucket::new(reading, now)),
        }
        Reading::Steady
    }

    /// Returns whether the node must not grant now; it may renew existing keys.
    pub(crate) fn is_barred(&self, now: Timestamp) -> bool {
        now < self.barred_until
    }

    /// Returns until when the node must not grant.
    pub(crate) fn barred_until(&self) -> Timestamp {
        self.barred_until
    }

    /// Returns the minimum by which the server's clock is ahead, in µs. A slow answer does not
    /// lower what an earlier one showed.
    pub(crate) fn ahead(&self) -> Option<i64> {
        self.buckets.iter().map(|bucket| bucket.low).max()
    }

    /// Widens all bounds after the local clock was put forward, possibly by up to `by` too much.
    pub(crate) fn widen(&mut self, by: Duration) {
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
    pub(crate) fn forgive(&mut self) {
        if let Some((buckets, barred_until)) = self.before.take() {
            self.buckets = buckets;
            self.barred_until = barred_until;
            // Its times are from before the correction.
            self.latest = None;
        }
    }
}

impl Bucket {
    fn new(reading: Interval, now: Timestamp) -> Self {
        Self { from: now, to: now, low: reading.low, high: reading.high }
    }

    fn of(latest: Latest) -> Self {
        Self::new(latest.reading, latest.received)
    }

    /// Returns the maximum by which a reading can be ahead of these, clock drift included.
    fn most_ahead(&self, reading: Interval, now: Timestamp, drift_factor: f64) -> i64 {
        reading.high.saturating_sub(self.low).saturating_add(self.drift(now, drift_factor))
    }

    /// Returns the maximum drift since these readings, in µs.
    fn drift(&self, now: Timestamp, drift_factor: f64) -> i64 {
        let drift = formulas::drift(now.saturating_duration_since(self.from), drift_factor);
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
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(10);
    const FACTOR: f64 = 0.01;

    fn at(ms: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(ms)
    }

    /// A server that is `ahead` ms ahead, asked at `ms`, with a round trip of `trip` ms.
    fn read(offsets: &mut Offsets, ms: u64, trip: u64, ahead: i64) -> Reading {
        let server = i64::try_from((ms + trip / 2) * 1_000).unwrap() + ahead * 1_000;
        let reading = Interval::new(at(ms), at(ms + trip), u64::try_from(server).unwrap());
        offsets.observe(reading, at(ms), at(ms + trip))
    }

    #[test]
    fn slow_answers_are_no_jumps() {
        let mut offsets = Offsets::new(WINDOW, FACTOR);
        for i in 0..100 {
            assert_eq!(read(&mut offsets, 1_000 + i * 500, i * 37 % 3_000, 5), Reading::Steady);
        }
    }

    #[test]
    fn slightly_different_rates_are_steady() {
        let mut offsets = Offsets::new(WINDOW, FACTOR);
        // 0.5 %: half of what the drift allowance grants.
        for second in 0..1_000_u32 {
            let ms = 1_000 + u64::from(second) * 1_000;
            assert_eq!(read(&mut offsets, ms, 1, i64::from(second) * 5), Reading::Steady);
        }
    }

    #[test]
    fn jump_bars_once_for_the_window() {
        for by in [31_000_i64, -900, 200] {
            let mut offsets = Offsets::new(WINDOW, FACTOR);
            assert_eq!(read(&mut offsets, 5_000, 2, 0), Reading::Steady);
            let Reading::Jumped { by: size, since } = read(&mut offsets, 6_000, 2, by) else {
                panic!("a jump by {by} ms was missed")
            };
            assert_eq!(since, at(5_000));
            if by > 0 {
                assert!(size.low <= by * 1_000 && by * 1_000 <= size.high, "{size:?}");
                assert!(size.low > 0);
            } else {
                assert!(size.low < 0, "{size:?}");
            }
            assert!(offsets.is_barred(at(6_002)) && offsets.is_barred(at(16_001)));
            assert!(!offsets.is_barred(at(16_002)));
            assert_eq!(read(&mut offsets, 7_000, 2, by), Reading::Steady);
        }
    }

    /// A lock of 300 ms sets 5 ms aside, in a set whose `max_ttl` is 10 s.
    #[test]
    fn shortest_locks_allowance_reveals_jump() {
        let mut offsets = Offsets::new(WINDOW, FACTOR);
        assert_eq!(read(&mut offsets, 5_000, 0, 0), Reading::Steady);
        assert_eq!(read(&mut offsets, 8_000, 0, 0), Reading::Steady, "when it granted");
        assert_ne!(read(&mut offsets, 8_300, 0, 6), Reading::Steady);
    }

    #[test]
    fn small_steps_add_up() {
        let mut offsets = Offsets::new(WINDOW, FACTOR);
        let steps = (0..40).map(|i| read(&mut offsets, 5_000 + 300 * i, 0, 4 * i.cast_signed()));
        assert!(steps.collect::<Vec<_>>().iter().any(|step| *step != Reading::Steady));
    }

    #[test]
    fn overcorrected_clock_accuses_nobody() {
        let mut offsets = Offsets::new(WINDOW, FACTOR);
        assert_eq!(read(&mut offsets, 5_000, 0, 0), Reading::Steady);
        offsets.widen(Duration::from_millis(200));
        assert_eq!(read(&mut offsets, 6_000, 0, -190), Reading::Steady);
        assert_ne!(read(&mut offsets, 6_500, 0, 30), Reading::Steady, "a jump all the same");
    }

    #[test]
    fn jump_in_small_steps_is_one() {
        let mut offsets = Offsets::new(WINDOW, FACTOR);
        let steps =
            (0..10).map(|i| read(&mut offsets, 5_000 + 500 * i, 1, 30 * i64::try_from(i).unwrap()));
        assert!(steps.collect::<Vec<_>>().iter().any(|step| *step != Reading::Steady));
    }

    #[test]
    fn reading_bounds_the_clocks_advance() {
        let mut offsets = Offsets::new(WINDOW, FACTOR);
        let server =
            |ms: u64, trip, ahead: u64| Interval::new(at(ms), at(ms + trip), (ms + ahead) * 1_000);
        assert_eq!(offsets.shift(server(5_000, 2, 0), at(5_000), at(5_002)), None);
        offsets.observe(server(5_000, 2, 0), at(5_000), at(5_002));
        let shift = |ms, trip, ahead| {
            let shift = offsets.shift(server(ms, trip, ahead), at(ms), at(ms + trip)).unwrap();
            assert_eq!((shift.from, shift.asked), (at(5_002), at(ms)));
            shift.at_most
        };
        // The first trip's 2 ms, 2 µs of rounding, and the drift: 1 % and 2 ms.
        assert_eq!(shift(6_000, 2, 1), 1_000 + 2_000 + 2 + 12_000);
        assert_eq!(shift(6_000, 1_002, 1), 1_000 + 2_000 + 2 + 22_000, "a slow answer");
        assert_eq!(shift(6_000, 2, 700), 700_000 + 2_000 + 2 + 12_000, "a jump itself");
    }

    #[test]
    fn earlier_bar_outlives_forgiveness() {
        let mut offsets = Offsets::new(WINDOW, FACTOR);
        read(&mut offsets, 5_000, 2, 0);
        assert_ne!(read(&mut offsets, 6_000, 2, 300_000), Reading::Steady, "its own jump");
        assert_ne!(read(&mut offsets, 9_000, 2, 303_000), Reading::Steady, "our clock stood still");
        offsets.forgive();
        assert!(offsets.is_barred(at(16_001)) && !offsets.is_barred(at(16_002)));
        assert_eq!(read(&mut offsets, 12_000, 2, 300_000), Reading::Steady);
    }

    #[test]
    fn local_fault_is_forgiven() {
        let mut offsets = Offsets::new(WINDOW, FACTOR);
        read(&mut offsets, 5_000, 2, 0);
        assert_ne!(read(&mut offsets, 6_000, 2, 3_000), Reading::Steady);
        offsets.forgive();
        assert!(!offsets.is_barred(at(6_002)));
        assert_eq!(read(&mut offsets, 10_000, 2, 0), Reading::Steady);
    }
}

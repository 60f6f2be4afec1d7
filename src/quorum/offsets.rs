//! R10: a server whose clock jumped may have forgotten keys too early.
//!
//! Every answer tells the server's time; between sending and receiving, that gives an interval for
//! the offset of its clock to ours. Slow answers give wide intervals, and accuse nobody.
//!
//! Two readings may come apart by the drift allowance of the time between them. A lock sets aside
//! that of its own TTL, and the node was read when it granted: so a jump that is seen as none is
//! covered, however short the TTL is beside `max_ttl`.

use std::{collections::VecDeque, time::Duration};

use super::rules;
use crate::time::Timestamp;

/// By how much a server's clock is ahead of ours, in µs: the truth is between the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The least.
    pub low: i64,
    /// The most.
    pub high: i64,
}

impl Interval {
    /// From a server's time that was read between `sent` and `received`.
    pub fn new(sent: Timestamp, received: Timestamp, server_micros: u64) -> Self {
        let micros = |at: Timestamp| i64::try_from(at.as_nanos() / 1_000).unwrap_or(i64::MAX);
        let server = i64::try_from(server_micros).unwrap_or(i64::MAX);
        // Both clocks are cut to whole µs.
        Self {
            low: server.saturating_sub(micros(received)).saturating_sub(1),
            high: server.saturating_sub(micros(sent)).saturating_add(1),
        }
    }
}

/// What a reading says of a server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It goes on as it did.
    Steady,
    /// It jumped by so much.
    Jumped(Interval),
}

/// The readings of one server's clock over the last `max_ttl`.
#[derive(Debug)]
pub struct Offsets {
    window: Duration,
    /// The share of a stretch of time by which clocks of different rates may come apart in it.
    drift_factor: f64,
    buckets: VecDeque<Bucket>,
    latest: Option<(Interval, Timestamp)>,
    /// What a jump made worthless, should it have been our own clock that stood still.
    before: Option<(VecDeque<Bucket>, Timestamp)>,
    barred_until: Timestamp,
}

/// Readings of a stretch of time: who meets the greatest low end and the least high end meets all.
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

    /// Readings are kept for so long from now on.
    pub fn set_window(&mut self, window: Duration) {
        self.window = window;
    }

    /// Takes a reading that came in at `now`.
    pub fn observe(&mut self, reading: Interval, now: Timestamp) -> Reading {
        let latest = self.latest.replace((reading, now));
        while self.buckets.front().is_some_and(|bucket| bucket.to + self.window < now) {
            self.buckets.pop_front();
        }
        let latest = latest.map(|(known, at)| Bucket::new(known, at));
        // The latest first: it shows how far a single jump went.
        let apart = latest
            .iter()
            .chain(&self.buckets)
            .find_map(|known| known.apart(reading, now, self.drift_factor));
        if let Some(by) = apart {
            let old = std::mem::take(&mut self.buckets);
            self.before = Some((old, self.barred_until));
            self.buckets.push_back(Bucket::new(reading, now));
            self.barred_until = now + self.window;
            return Reading::Jumped(by);
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

    /// Whether the node must not grant now; it may renew what it keeps.
    pub fn is_barred(&self, now: Timestamp) -> bool {
        now < self.barred_until
    }

    /// Until when it must not grant.
    pub fn barred_until(&self) -> Timestamp {
        self.barred_until
    }

    /// The latest reading.
    pub fn latest(&self) -> Option<Interval> {
        self.latest.map(|(reading, _)| reading)
    }

    /// Our clock was put forward, by too much perhaps, and by so much at the most.
    pub fn widen(&mut self, by: Duration) {
        let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        let before = self.before.iter_mut().flat_map(|(buckets, _)| buckets);
        for bucket in self.buckets.iter_mut().chain(before) {
            bucket.low = bucket.low.saturating_sub(by);
        }
        if let Some((reading, _)) = &mut self.latest {
            reading.low = reading.low.saturating_sub(by);
        }
    }

    /// It was our own clock that stood still, and it was put right.
    pub fn forgive(&mut self) {
        if let Some((buckets, barred_until)) = self.before.take() {
            self.buckets = buckets;
            self.barred_until = barred_until;
            // It was read by a clock that has been put right since.
            self.latest = None;
        }
    }
}

impl Bucket {
    fn new(reading: Interval, now: Timestamp) -> Self {
        Self { from: now, to: now, low: reading.low, high: reading.high }
    }

    /// By how much a reading is ahead of these, if it is farther from them than clocks of
    /// different rates can have come apart since.
    fn apart(&self, reading: Interval, now: Timestamp, drift_factor: f64) -> Option<Interval> {
        let drift = rules::drift(now.since(self.from), drift_factor);
        let allowed = i64::try_from(drift.as_micros()).unwrap_or(i64::MAX);
        let low = reading.low.saturating_sub(self.high);
        let high = reading.high.saturating_sub(self.low);
        (low > allowed || high < -allowed).then_some(Interval { low, high })
    }
}

/// Tells whether servers' clocks jumped or our own stood still: then a quorum of them seem to have
/// jumped forward by the same time, together.
#[derive(Debug)]
pub struct Jury {
    quorum: usize,
    slack: i64,
    jumps: Box<[Option<(Timestamp, Interval)>]>,
}

/// Our own clock stood still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoodStill {
    /// For so long at least.
    pub at_least: Duration,
    /// For so long at most.
    pub at_most: Duration,
    /// The nodes whose clocks seemed to have jumped by that; others' jumps were their own.
    pub accused: Vec<usize>,
}

/// Nodes are looked at every second.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
const TOGETHER: Duration = Duration::from_secs(5);

impl Jury {
    /// For a set of so many nodes.
    pub fn new(nodes: usize, drift_factor: f64) -> Self {
        let slack = rules::drift(BETWEEN_LOOKS, drift_factor);
        Self {
            quorum: super::rules::quorum(nodes),
            slack: i64::try_from(slack.as_micros()).unwrap_or(i64::MAX),
            jumps: vec![None; nodes].into_boxed_slice(),
        }
    }

    /// A node's clock jumped. Some if our own clock stood still instead.
    pub fn report(&mut self, node: usize, by: Interval, now: Timestamp) -> Option<StoodStill> {
        self.jumps[node] = (by.low > 0).then_some((now, by));
        let alike = |other: &Interval| {
            other.low <= by.high.saturating_add(self.slack)
                && by.low <= other.high.saturating_add(self.slack)
        };
        let together: Vec<(usize, Interval)> = self
            .jumps
            .iter()
            .enumerate()
            .filter_map(|(node, jump)| jump.map(|(at, by)| (node, at, by)))
            .filter(|(_, at, other)| now.since(*at) <= TOGETHER && alike(other))
            .map(|(node, _, other)| (node, other))
            .collect();
        if together.len() < self.quorum {
            return None;
        }
        self.jumps.fill(None);
        // A single node has nobody to be compared with.
        if self.jumps.len() == 1 {
            return None;
        }
        let most = together.iter().map(|(_, by)| by.high).min()?;
        let least = together.iter().map(|(_, by)| by.low).max()?;
        Some(StoodStill {
            at_least: Duration::from_micros(u64::try_from(least.min(most)).unwrap_or(0)),
            at_most: Duration::from_micros(u64::try_from(most).unwrap_or(0)),
            accused: together.into_iter().map(|(node, _)| node).collect(),
        })
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
        offsets.observe(reading, at(ms + trip))
    }

    #[test]
    fn slow_answers_are_no_jumps() {
        let mut offsets = Offsets::new(WINDOW, FACTOR);
        for i in 0..100 {
            assert_eq!(read(&mut offsets, 1_000 + i * 500, i * 37 % 3_000, 5), Reading::Steady);
        }
    }

    #[test]
    fn clocks_of_slightly_different_rates_are_no_jump() {
        let mut offsets = Offsets::new(WINDOW, FACTOR);
        // 0.5 %: half of what the drift allowance grants.
        for second in 0..1_000_u32 {
            let ms = 1_000 + u64::from(second) * 1_000;
            assert_eq!(read(&mut offsets, ms, 1, i64::from(second) * 5), Reading::Steady);
        }
    }

    #[test]
    fn a_jump_in_either_direction_bars_for_the_window_and_only_once() {
        for by in [31_000_i64, -900, 200] {
            let mut offsets = Offsets::new(WINDOW, FACTOR);
            assert_eq!(read(&mut offsets, 5_000, 2, 0), Reading::Steady);
            let Reading::Jumped(size) = read(&mut offsets, 6_000, 2, by) else {
                panic!("a jump by {by} ms was missed")
            };
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
    fn a_jump_is_seen_by_what_the_shortest_lock_sets_aside() {
        let mut offsets = Offsets::new(WINDOW, FACTOR);
        assert_eq!(read(&mut offsets, 5_000, 0, 0), Reading::Steady);
        assert_eq!(read(&mut offsets, 8_000, 0, 0), Reading::Steady, "when it granted");
        assert_ne!(read(&mut offsets, 8_300, 0, 6), Reading::Steady);
    }

    #[test]
    fn steps_that_are_small_beside_the_time_between_them_add_up() {
        let mut offsets = Offsets::new(WINDOW, FACTOR);
        let steps = (0..40).map(|i| read(&mut offsets, 5_000 + 300 * i, 0, 4 * i.cast_signed()));
        assert!(steps.collect::<Vec<_>>().iter().any(|step| *step != Reading::Steady));
    }

    #[test]
    fn a_clock_that_was_put_forward_by_too_much_accuses_nobody() {
        let mut offsets = Offsets::new(WINDOW, FACTOR);
        assert_eq!(read(&mut offsets, 5_000, 0, 0), Reading::Steady);
        offsets.widen(Duration::from_millis(200));
        assert_eq!(read(&mut offsets, 6_000, 0, -190), Reading::Steady);
        assert_ne!(read(&mut offsets, 6_500, 0, 30), Reading::Steady, "a jump all the same");
    }

    #[test]
    fn a_jump_in_small_steps_is_one() {
        let mut offsets = Offsets::new(WINDOW, FACTOR);
        let steps =
            (0..10).map(|i| read(&mut offsets, 5_000 + 500 * i, 1, 30 * i64::try_from(i).unwrap()));
        assert!(steps.collect::<Vec<_>>().iter().any(|step| *step != Reading::Steady));
    }

    #[test]
    fn a_quorum_that_jumps_together_says_that_our_own_clock_stood_still() {
        let by = |low, high| Interval { low, high };
        let mut jury = Jury::new(3, FACTOR);
        assert_eq!(jury.report(0, by(2_990_000, 3_001_000), at(0)), None);
        assert_eq!(
            jury.report(2, by(2_995_000, 3_000_500), at(900)),
            Some(StoodStill {
                at_least: Duration::from_millis(2_995),
                at_most: Duration::from_micros(3_000_500),
                accused: vec![0, 2]
            })
        );
        // Not by the same time, not at the same time, not forward.
        assert_eq!(jury.report(0, by(2_990_000, 3_001_000), at(0)), None);
        assert_eq!(jury.report(1, by(9_000_000, 9_001_000), at(0)), None);
        assert_eq!(jury.report(2, by(2_990_000, 3_001_000), at(60_000)), None);
        assert_eq!(jury.report(0, by(-3_001_000, -2_990_000), at(60_001)), None);
    }

    /// Two of three accuse our clock; the third jumped by itself, and remains accused.
    #[test]
    fn who_jumped_by_another_time_is_not_among_the_accused() {
        let by = |low, high| Interval { low, high };
        let mut jury = Jury::new(3, FACTOR);
        assert_eq!(jury.report(1, by(299_000_000, 299_001_000), at(0)), None);
        assert_eq!(jury.report(0, by(2_990_000, 3_001_000), at(100)), None);
        let still = jury.report(2, by(2_995_000, 3_000_500), at(900)).unwrap();
        assert_eq!(still.accused, [0, 2]);
    }

    #[test]
    fn a_bar_from_before_outlives_what_is_forgiven() {
        let mut offsets = Offsets::new(WINDOW, FACTOR);
        read(&mut offsets, 5_000, 2, 0);
        assert_ne!(read(&mut offsets, 6_000, 2, 300_000), Reading::Steady, "its own jump");
        assert_ne!(read(&mut offsets, 9_000, 2, 303_000), Reading::Steady, "our clock stood still");
        offsets.forgive();
        assert!(offsets.is_barred(at(16_001)) && !offsets.is_barred(at(16_002)));
        assert_eq!(read(&mut offsets, 12_000, 2, 300_000), Reading::Steady);
    }

    #[test]
    fn what_was_our_own_fault_is_forgiven() {
        let mut offsets = Offsets::new(WINDOW, FACTOR);
        read(&mut offsets, 5_000, 2, 0);
        assert_ne!(read(&mut offsets, 6_000, 2, 3_000), Reading::Steady);
        offsets.forgive();
        assert!(!offsets.is_barred(at(6_002)));
        assert_eq!(read(&mut offsets, 10_000, 2, 0), Reading::Steady);
    }
}

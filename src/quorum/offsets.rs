//! R10: a server whose clock jumped may have forgotten keys too early.
//!
//! Every answer tells the server's time; between sending and receiving, that gives an interval for
//! the offset of its clock to ours. Slow answers give wide intervals, and accuse nobody.

use std::{collections::VecDeque, time::Duration};

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
    /// What clocks of different rates may come apart in that time, in µs.
    slack: i64,
    buckets: VecDeque<Bucket>,
    latest: Option<Interval>,
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
    /// No history yet. Readings are kept for `window`, and may come apart by `slack` in that time.
    pub fn new(window: Duration, slack: Duration) -> Self {
        Self {
            window,
            slack: i64::try_from(slack.as_micros()).unwrap_or(i64::MAX),
            buckets: VecDeque::new(),
            latest: None,
            before: None,
            barred_until: Timestamp::ZERO,
        }
    }

    /// Readings are kept for so long from now on.
    pub fn set_window(&mut self, window: Duration, slack: Duration) {
        self.window = window;
        self.slack = i64::try_from(slack.as_micros()).unwrap_or(i64::MAX);
    }

    /// Takes a reading that came in at `now`.
    pub fn observe(&mut self, reading: Interval, now: Timestamp) -> Reading {
        self.latest = Some(reading);
        while self.buckets.front().is_some_and(|bucket| bucket.to + self.window < now) {
            self.buckets.pop_front();
        }
        let low = self.buckets.iter().map(|bucket| bucket.low).max();
        let high = self.buckets.iter().map(|bucket| bucket.high).min();
        if let (Some(low), Some(high)) = (low, high) {
            let ahead = reading.low.saturating_sub(high);
            let behind = low.saturating_sub(reading.high);
            if ahead > self.slack || behind > self.slack {
                let by = Interval { low: ahead, high: reading.high.saturating_sub(low) };
                let old = std::mem::take(&mut self.buckets);
                self.before = Some((old, self.barred_until));
                self.buckets.push_back(Bucket::new(reading, now));
                self.barred_until = now + self.window;
                return Reading::Jumped(by);
            }
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
        self.latest
    }

    /// It was our own clock that stood still, and it was put right.
    pub fn forgive(&mut self) {
        if let Some((buckets, barred_until)) = self.before.take() {
            self.buckets = buckets;
            self.barred_until = barred_until;
        }
    }
}

impl Bucket {
    fn new(reading: Interval, now: Timestamp) -> Self {
        Self { from: now, to: now, low: reading.low, high: reading.high }
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
    /// For so long at most.
    pub at_most: Duration,
    /// The nodes whose clocks seemed to have jumped by that; others' jumps were their own.
    pub accused: Vec<usize>,
}

/// Nodes are looked at every second.
const TOGETHER: Duration = Duration::from_secs(5);

impl Jury {
    /// For a set of so many nodes.
    pub fn new(nodes: usize, slack: Duration) -> Self {
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
        Some(StoodStill {
            at_most: Duration::from_micros(u64::try_from(most).unwrap_or(0)),
            accused: together.into_iter().map(|(node, _)| node).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(10);
    const SLACK: Duration = Duration::from_millis(102);

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
        let mut offsets = Offsets::new(WINDOW, SLACK);
        for i in 0..100 {
            assert_eq!(read(&mut offsets, 1_000 + i * 500, i * 37 % 3_000, 5), Reading::Steady);
        }
    }

    #[test]
    fn clocks_of_slightly_different_rates_are_no_jump() {
        let mut offsets = Offsets::new(WINDOW, SLACK);
        // 0.5 %: half of what the drift allowance grants.
        for second in 0..1_000_u32 {
            let ms = 1_000 + u64::from(second) * 1_000;
            assert_eq!(read(&mut offsets, ms, 1, i64::from(second) * 5), Reading::Steady);
        }
    }

    #[test]
    fn a_jump_in_either_direction_bars_for_the_window_and_only_once() {
        for by in [31_000_i64, -900, 200] {
            let mut offsets = Offsets::new(WINDOW, SLACK);
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

    #[test]
    fn a_jump_in_small_steps_is_one() {
        let mut offsets = Offsets::new(WINDOW, SLACK);
        let steps =
            (0..10).map(|i| read(&mut offsets, 5_000 + 500 * i, 1, 30 * i64::try_from(i).unwrap()));
        assert!(steps.collect::<Vec<_>>().iter().any(|step| *step != Reading::Steady));
    }

    #[test]
    fn a_quorum_that_jumps_together_says_that_our_own_clock_stood_still() {
        let by = |low, high| Interval { low, high };
        let mut jury = Jury::new(3, SLACK);
        assert_eq!(jury.report(0, by(2_990_000, 3_001_000), at(0)), None);
        assert_eq!(
            jury.report(2, by(2_995_000, 3_000_500), at(900)),
            Some(StoodStill { at_most: Duration::from_micros(3_000_500), accused: vec![0, 2] })
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
        let mut jury = Jury::new(3, SLACK);
        assert_eq!(jury.report(1, by(299_000_000, 299_001_000), at(0)), None);
        assert_eq!(jury.report(0, by(2_990_000, 3_001_000), at(100)), None);
        let still = jury.report(2, by(2_995_000, 3_000_500), at(900)).unwrap();
        assert_eq!(still.accused, [0, 2]);
    }

    #[test]
    fn a_bar_from_before_outlives_what_is_forgiven() {
        let mut offsets = Offsets::new(WINDOW, SLACK);
        read(&mut offsets, 5_000, 2, 0);
        assert_ne!(read(&mut offsets, 6_000, 2, 300_000), Reading::Steady, "its own jump");
        assert_ne!(read(&mut offsets, 9_000, 2, 303_000), Reading::Steady, "our clock stood still");
        offsets.forgive();
        assert!(offsets.is_barred(at(16_001)) && !offsets.is_barred(at(16_002)));
        assert_eq!(read(&mut offsets, 12_000, 2, 300_000), Reading::Steady);
    }

    #[test]
    fn what_was_our_own_fault_is_forgiven() {
        let mut offsets = Offsets::new(WINDOW, SLACK);
        read(&mut offsets, 5_000, 2, 0);
        assert_ne!(read(&mut offsets, 6_000, 2, 3_000), Reading::Steady);
        offsets.forgive();
        assert!(!offsets.is_barred(at(6_002)));
        assert_eq!(read(&mut offsets, 10_000, 2, 0), Reading::Steady);
    }
}

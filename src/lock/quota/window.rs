//! Counts records that expire, without an entry for each.

use std::{collections::BTreeMap, time::Duration};

use crate::time::Timestamp;

/// Records on the nodes, and their approximate size on each node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) records: u64,
    /// Bytes of the records, without their answers.
    pub(super) bytes: u64,
    /// Bytes of their answers.
    pub(super) answers: u64,
}

impl Usage {
    pub(super) const fn plus(self, other: Self) -> Self {
        Self {
            records: self.records.saturating_add(other.records),
            bytes: self.bytes.saturating_add(other.bytes),
            answers: self.answers.saturating_add(other.answers),
        }
    }

    pub(super) const fn minus(self, other: Self) -> Self {
        Self {
            records: self.records.saturating_sub(other.records),
            bytes: self.bytes.saturating_sub(other.bytes),
            answers: self.answers.saturating_sub(other.answers),
        }
    }
}

/// The usage that a lease's record is charged.
#[derive(Debug, Default)]
pub(super) struct ChargedUsage {
    /// The part that is reserved and not written yet.
    pub(super) reserved: Usage,
    /// The part that is written, with the end of its bucket.
    pub(super) written: Option<(Usage, Timestamp)>,
    /// The stripe of the scope that it counts for.
    pub(super) stripe: Option<u64>,
}

/// The usage that has not expired, in buckets by its time of expiry.
///
/// A bucket is at most a 32nd of the retention wide, and counts until its end. So there are at most
/// 66 buckets for retentions within a factor of two.
#[derive(Debug, Default)]
pub(super) struct Window {
    buckets: BTreeMap<Timestamp, Usage>,
    total: Usage,
}

impl Window {
    /// Adds `usage` to the [`bucket`] that ends at `end`.
    pub(super) fn add(&mut self, usage: Usage, end: Timestamp) {
        let bucket = self.buckets.entry(end).or_default();
        *bucket = bucket.plus(usage);
        self.total = self.total.plus(usage);
    }

    /// Removes `usage`, unless its bucket has expired.
    pub(super) fn remove(&mut self, usage: Usage, end: Timestamp) {
        if let Some(bucket) = self.buckets.get_mut(&end) {
            *bucket = bucket.minus(usage);
            self.total = self.total.minus(usage);
        }
    }

    /// Removes the buckets that have expired.
    pub(super) fn expire(&mut self, now: Timestamp) {
        while let Some(first) = self.buckets.first_entry()
            && *first.key() <= now
        {
            self.total = self.total.minus(first.remove());
        }
    }

    pub(super) const fn total(&self) -> Usage {
        self.total
    }

    /// Returns when the next records expire.
    pub(super) fn next_end(&self) -> Option<Timestamp> {
        self.buckets.iter().find(|(_, usage)| usage.records > 0).map(|(end, _)| *end)
    }
}

/// What is kept, and what is reserved by work in flight and not written yet.
#[derive(Debug, Default)]
pub(super) struct Count {
    kept: Window,
    reserved: Usage,
}

impl Count {
    /// Returns what is kept and reserved now.
    pub(super) fn used(&mut self, now: Timestamp) -> Usage {
        self.kept.expire(now);
        self.kept.total().plus(self.reserved)
    }

    pub(super) fn reserve(&mut self, usage: Usage) {
        self.reserved = self.reserved.plus(usage);
    }

    /// Frees what was charged.
    pub(super) fn free(&mut self, charged: &ChargedUsage) {
        self.reserved = self.reserved.minus(charged.reserved);
        if let Some((usage, end)) = charged.written {
            self.kept.remove(usage, end);
        }
    }

    pub(super) fn add(&mut self, usage: Usage, end: Timestamp) {
        self.kept.add(usage, end);
    }

    /// Returns the time until the next records expire.
    pub(super) fn next_end(&self, now: Timestamp) -> Option<Duration> {
        self.kept.next_end().map(|end| end.saturating_duration_since(now))
    }
}

/// Returns the end of the bucket for records that expire at `now + retain`.
pub(super) fn bucket(now: Timestamp, retain: Duration) -> Timestamp {
    let retain_nanos = u64::try_from(retain.as_nanos()).unwrap_or(u64::MAX);
    let width = (retain_nanos / 64).max(1).next_power_of_two();
    let last = (now + retain).as_nanos();
    Timestamp::from_nanos(last.checked_next_multiple_of(width).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    const RETENTIONS: [Duration; 4] = [
        Duration::from_millis(1),
        Duration::from_secs(60),
        Duration::from_secs(96 * 3600),
        Duration::from_secs(100 * 366 * 24 * 3600),
    ];

    fn one(bytes: u64) -> Usage {
        Usage { records: 1, bytes, answers: 0 }
    }

    #[test]
    fn long_retentions_have_buckets() {
        for retain in [RETENTIONS[3], Duration::MAX] {
            let mut window = Window::default();
            let end = bucket(Timestamp::from_nanos(5), retain);

            window.add(one(7), end);
            assert!(end >= Timestamp::from_nanos(5) + retain);
            window.expire(end.saturating_sub(Duration::from_nanos(1)));
            assert_eq!(window.total(), one(7));
            window.expire(end);

            assert_eq!((window.total(), window.next_end()), (Usage::default(), None));
        }
    }

    #[test]
    fn million_records_take_few_buckets() {
        let (mut window, retain) = (Window::default(), RETENTIONS[2]);

        for i in 0..1_000_000_u64 {
            let now = Timestamp::ZERO + retain * u32::try_from(i).unwrap() / 500_000;
            window.expire(now);
            window.add(one(300), bucket(now, retain));
        }
        assert!(window.buckets.len() <= 66, "{}", window.buckets.len());
        let records = window.total().records;

        assert!((500_000..=500_000 * 33 / 32 + 1).contains(&records), "{records}");
    }

    proptest! {
        #[test]
        fn records_count_until_shortly_after_expiry(
            adds in vec((0..1_000_u64, 0..4_usize, 1..100_u64, any::<bool>()), 0..50),
        ) {
            let (mut window, mut now) = (Window::default(), Timestamp::ZERO);
            let mut known = Vec::new();
            for (seconds, retain, bytes, is_removed) in adds {
                now = now + Duration::from_secs(seconds);
                let retain = RETENTIONS[retain];
                let end = bucket(now, retain);
                window.add(one(bytes), end);
                if is_removed {
                    window.remove(one(bytes), end);
                } else {
                    known.push((now + retain, now + retain + retain / 32, bytes));
                }
                window.expire(now);

                let sum = |is_over: &dyn Fn(&(Timestamp, Timestamp, u64)) -> bool| {
                    let left = known.iter().filter(|entry| !is_over(entry));
                    left.map(|(_, _, bytes)| bytes).sum::<u64>()
                };
                let least = sum(&|(end, _, _)| *end <= now);
                let most = sum(&|(_, late, _)| *late < now);
                prop_assert!((least..=most).contains(&window.total().bytes));
            }
        }
    }
}

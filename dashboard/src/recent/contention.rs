//! Names that requests of this process waited for, or were refused.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tower_redlock::Resource;

/// Maximum number of names.
const MAX_NAMES: usize = 256;
/// Number of minutes that are kept of each name.
const MINUTES: usize = 15;

/// The requests of the last 15 minutes that waited or were refused, by name.
///
/// Of more than [`MAX_NAMES`] names in that time, those with the fewest such requests are forgotten.
#[derive(Debug, Default)]
pub(crate) struct Contention(HashMap<Arc<str>, Minutes>);

/// The minutes of a name. Minute `n` is at `n % MINUTES`.
#[derive(Debug)]
struct Minutes {
    /// The latest minute, counted from the begin of the records.
    latest: u64,
    minutes: [Minute; MINUTES],
}

#[derive(Clone, Copy, Debug, Default)]
struct Minute {
    granted: u32,
    refused: u32,
    longest_millis: u32,
}

/// The requests for a name in the last 15 minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NameWaits {
    /// Requests that were granted after a wait.
    pub(crate) granted: u64,
    /// Requests that ended without a lock.
    pub(crate) refused: u64,
    /// The longest wait of any of them.
    pub(crate) longest: Duration,
}

impl NameWaits {
    pub(crate) const fn requests(&self) -> u64 {
        self.granted + self.refused
    }
}

const fn minute(at: Duration) -> u64 {
    at.as_secs() / 60
}

impl Minutes {
    /// Forgets the minutes that are too old at a minute.
    fn advance(&mut self, to: u64) {
        let passed = to.saturating_sub(self.latest).min(MINUTES as u64);
        for ago in 0..passed {
            self.minutes[place(to - ago)] = Minute::default();
        }
        self.latest = self.latest.max(to);
    }

    /// Returns the sum of the minutes that are not too old at a minute.
    fn sum(&self, now: u64) -> NameWaits {
        let mut sum = NameWaits::default();
        for ago in 0..(MINUTES as u64).min(self.latest + 1) {
            let number = self.latest - ago;
            if number + (MINUTES as u64) <= now {
                break;
            }
            let minute = self.minutes[place(number)];
            sum.granted += u64::from(minute.granted);
            sum.refused += u64::from(minute.refused);
            sum.longest = sum.longest.max(Duration::from_millis(minute.longest_millis.into()));
        }
        sum
    }
}

fn place(minute: u64) -> usize {
    usize::try_from(minute % (MINUTES as u64)).unwrap_or(0)
}

/// Returns the name under which all requests for slots of a name are counted.
pub(crate) fn line_of(name: &str) -> Arc<str> {
    let of = Resource::slot_of(name).map(|(_, of)| of).or_else(|| Resource::any_slot_of(name));
    let line = of.map(Resource::of_all_lines);
    line.as_ref().and_then(|line| line.names().next()).unwrap_or(name).into()
}

impl Contention {
    /// Records a request that waited, or was refused.
    pub(crate) fn add(&mut self, at: Duration, name: &str, waited: Duration, is_granted: bool) {
        let (now, name) = (minute(at), line_of(name));
        if !self.0.contains_key(&name) && self.0.len() == MAX_NAMES {
            self.evict(now);
        }
        let new = || Minutes { latest: now, minutes: [Minute::default(); MINUTES] };
        let minutes = self.0.entry(name).or_insert_with(new);
        minutes.advance(now);
        let minute = &mut minutes.minutes[place(now.max(minutes.latest))];
        let count = if is_granted { &mut minute.granted } else { &mut minute.refused };
        *count = count.saturating_add(1);
        let millis = u32::try_from(waited.as_millis()).unwrap_or(u32::MAX);
        minute.longest_millis = minute.longest_millis.max(millis);
        debug_assert!(self.0.len() <= MAX_NAMES);
    }

    fn evict(&mut self, now: u64) {
        let least = self.0.iter().min_by_key(|(_, minutes)| minutes.sum(now).requests());
        if let Some(name) = least.map(|(name, _)| Arc::clone(name)) {
            self.0.remove(&name);
        }
    }

    /// Returns the names with their requests of the last 15 minutes, in no order.
    pub(crate) fn names(&self, at: Duration) -> Vec<(Arc<str>, NameWaits)> {
        let sums = self.0.iter().map(|(name, of)| (Arc::clone(name), of.sum(minute(at))));
        sums.filter(|(_, sum)| sum.requests() > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const MS: Duration = Duration::from_millis(1);

    fn of(contention: &Contention, at: Duration, name: &str) -> Option<NameWaits> {
        contention.names(at).into_iter().find(|(other, _)| &**other == name).map(|(_, of)| of)
    }

    #[test]
    fn requests_of_the_last_quarter_hour_count() {
        let mut contention = Contention::default();
        contention.add(Duration::ZERO, "a", 30 * MS, true);
        contention.add(14 * MINUTE, "a", 20 * MS, true);
        contention.add(14 * MINUTE, "a", 10 * MS, false);

        let all = NameWaits { granted: 2, refused: 1, longest: 30 * MS };
        assert_eq!(of(&contention, 14 * MINUTE, "a"), Some(all));
        let rest = NameWaits { granted: 1, refused: 1, longest: 20 * MS };
        assert_eq!(of(&contention, 15 * MINUTE, "a"), Some(rest));
        assert_eq!(of(&contention, 28 * MINUTE, "a"), Some(rest));
        assert_eq!(of(&contention, 29 * MINUTE, "a"), None);

        contention.add(100 * MINUTE, "a", MS, false);
        let last = NameWaits { granted: 0, refused: 1, longest: MS };
        assert_eq!(of(&contention, 100 * MINUTE, "a"), Some(last));
    }

    #[test]
    fn slots_count_as_one_line() {
        let mut contention = Contention::default();
        contention.add(Duration::ZERO, "slot:0:export", MS, true);
        contention.add(Duration::ZERO, "slot:1:export", MS, true);
        contention.add(Duration::ZERO, "slot:*2:export", MS, false);
        let line = NameWaits { granted: 2, refused: 1, longest: MS };
        assert_eq!(of(&contention, Duration::ZERO, "slot:*:export"), Some(line));
    }

    #[test]
    fn busiest_names_are_kept() {
        let mut contention = Contention::default();
        for _ in 0..3 {
            contention.add(Duration::ZERO, "busy", MS, false);
        }
        for number in 0..10 * MAX_NAMES {
            contention.add(MINUTE, &number.to_string(), MS, false);
        }
        assert_eq!(contention.names(MINUTE).len(), MAX_NAMES);
        assert_eq!(of(&contention, MINUTE, "busy").map(|of| of.refused), Some(3));
    }
}

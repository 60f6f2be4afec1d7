//! The times at which a holder believed that it held its lock.

use std::time::Duration;

use tower_redlock::time::Timestamp;

/// The times at which the lock was valid, as the library reported them, and no more.
///
/// A lock that is valid at two moments was valid in between, as a lost lock never becomes valid
/// again. As this is under test too, two moments that are further apart than the validity known at
/// the first one belong to different stretches. So a worker that was frozen claims nothing for that
/// time.
#[derive(Debug)]
pub struct Belief {
    stretches: Vec<Stretch>,
    /// End of the validity that was known at the last moment.
    certain_until: Timestamp,
}

/// A time between two moments in which the lock counts as held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// First moment at which the lock was valid.
    pub from: Timestamp,
    /// Last moment at which the lock was valid.
    pub until: Timestamp,
}

impl Belief {
    /// Creates a belief without moments; the lock was granted before `acquired`.
    pub fn new(acquired: Timestamp, remaining: Duration) -> Self {
        let stretches = vec![Stretch { from: acquired, until: acquired }];
        Self { stretches, certain_until: acquired + remaining }
    }

    /// Records that the lock was valid for `remaining` after `now` was read.
    pub fn valid_at(&mut self, now: Timestamp, remaining: Duration) {
        match self.stretches.last_mut() {
            Some(last) if now <= self.certain_until => last.until = now,
            _ => self.stretches.push(Stretch { from: now, until: now }),
        }
        self.certain_until = now + remaining;
    }

    /// The stretches so far, in order.
    pub fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    const TTL: Duration = Duration::from_millis(100);

    fn stretches(moments: &[u64]) -> Vec<(u64, u64)> {
        let mut belief = Belief::new(at(0), TTL);
        for &moment in moments {
            belief.valid_at(at(moment), TTL);
        }
        let ms = |time: Timestamp| time.as_nanos() / 1_000_000;
        belief.stretches().iter().map(|stretch| (ms(stretch.from), ms(stretch.until))).collect()
    }

    #[test]
    fn unseen_lock_has_moment_only() {
        assert_eq!(stretches(&[]), [(0, 0)]);
    }

    #[test]
    fn near_moments_make_one_stretch() {
        assert_eq!(stretches(&[1, 2, 100, 200]), [(0, 200)]);
    }

    #[test]
    fn belief_is_within_validity() {
        assert_eq!(stretches(&[1, 102, 103]), [(0, 1), (102, 103)]);
    }
}

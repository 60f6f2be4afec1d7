//! The formulas for N nodes: quorum, drift allowance, validity, timeouts.

use std::time::Duration;

use crate::switches::{self, Switch};

/// Added to every drift allowance: Redis and this crate expire keys with a precision of 1 ms.
///
/// Source: *Distributed Locks with Redis* (redis.io), "Is the Algorithm Asynchronous?", and the
/// reference implementations, which all add 2 ms.
const DRIFT_FLOOR: Duration = Duration::from_millis(2);

/// Precision of a key's expiry.
const KEY_PRECISION: Duration = Duration::from_millis(1);

/// ⌊n/2⌋+1: the smallest number of nodes of which any two sets share one.
pub const fn quorum(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// Drift allowance for clocks that run at different rates: factor × TTL + 2 ms.
///
/// Source: *Distributed Locks with Redis* (redis.io), the `CLOCK_DRIFT` of the validity formula.
pub fn drift(ttl: Duration, factor: f64) -> Duration {
    ttl.mul_f64(factor).saturating_add(DRIFT_FLOOR)
}

/// Interval between two readings of a server's clock, also by a client without requests.
pub const READ_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum age of the reading before, when a reading judges a grant of a client that runs and is
/// connected: a reading may be late by an interval. The age counts from when it was requested.
pub const READING_AGE: Duration = READ_INTERVAL.saturating_mul(2);

/// Returns the part of the TTL that a lease sets aside for the servers' clocks: factor × the longer of
/// the TTL and 3 s, + 2 ms. The servers keep its keys for so much longer than it is valid.
///
/// A step forward of a server's clock ends keys early. Of a client that was just granted a key,
/// nothing is known but that it has not [seen](unseen_step) a step, so each lease, however short,
/// sets that much aside. The factor of the third second is left for rates that differ, for the
/// precision of 1 ms, and for the trip of a reading. So there is one holder if each server's clock
/// has gained at most ρ per unit of time, and if
///
/// ρ × (TTL + 2 s) + 1 ms + trip ≤ factor × (max(TTL, 3 s) − 2 s).
///
/// Source: the sum of the steps that are not seen and of the drift of the validity formula, see
/// [`drift`].
pub fn slack(ttl: Duration, factor: f64) -> Duration {
    if switches::is_out(Switch::StepAllowance) {
        return drift(ttl, factor);
    }
    drift(ttl.max(READING_AGE + READ_INTERVAL), factor)
}

/// Returns the largest step of a server's clock that a reading does not show: factor × the age of the
/// reading before, + 2 ms + the time that this earlier request took to reach the server, which is at
/// most its round trip.
///
/// Source: `membership::offsets`, which compares the bounds of the two readings.
pub fn unseen_step(age: Duration, trip: Duration, factor: f64) -> Duration {
    drift(age, factor).saturating_add(trip)
}

/// Returns the sum of the steps of a server's clock that shorten no lease of this TTL, seen or not: the
/// [slack] less 1 ms, the precision of an expiry. The rates of the clocks are the same; ρ × TTL is
/// subtracted if they differ by ρ.
pub fn tolerated_step(ttl: Duration, factor: f64) -> Duration {
    slack(ttl, factor).saturating_sub(KEY_PRECISION)
}

/// Returns the validity of a lease from the start of the request: TTL − slack, at least zero.
pub fn validity(ttl: Duration, slack: Duration) -> Duration {
    ttl.saturating_sub(slack)
}

/// Timeout for a node's answer: the configured one, at most a tenth of the TTL, so that a hung
/// minority cannot use up the validity.
pub fn node_timeout(configured: Duration, ttl: Duration) -> Duration {
    configured.min(ttl / 10)
}

/// Interval between the starts of two rounds of renewal.
pub fn renewal_interval(validity: Duration) -> Duration {
    validity / 3
}

/// Pause after a renewal that did not reach a quorum.
pub(crate) fn renewal_retry(validity: Duration) -> Duration {
    (validity / 20).clamp(Duration::from_millis(2), Duration::from_millis(250))
}

/// Returns the wall clock of a quorum of nodes: the latest time that a quorum of clocks has
/// reached, so a minority of clocks can't move it beyond the sound ones. If fewer than a quorum are
/// known, the earliest of them. Reorders `known`.
pub fn common_wall(known: &mut [Duration], quorum: usize) -> Option<Duration> {
    let rank = quorum.min(known.len()).checked_sub(1)?;
    Some(*known.select_nth_unstable_by(rank, |one, other| other.cmp(one)).1)
}

/// The nodes whose records were read for a node that forgot its own, including itself. Nodes that
/// do not vote are not counted: their names may lead other clients to servers that do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources {
    /// Number of nodes in the set.
    pub nodes: usize,
    /// Number of nodes that vote and lack no records.
    pub complete: usize,
    /// Number of nodes that vote and lack records.
    pub incomplete: usize,
    /// The node started with a quorum of nodes that forgot, not by learning from others.
    pub is_bootstrapped: bool,
}

impl Sources {
    /// Returns whether the node may answer from now on that a record is missing.
    ///
    /// Each record of a quorum is on one of N−q+1 other nodes that lack none. If fewer lack none, a
    /// node that was not read may be the last one with a record, so all have to be read. A
    /// bootstrapped node is part of a new set: any q of its nodes, itself included, have all
    /// records.
    pub const fn suffice(self) -> bool {
        let quorum = quorum(self.nodes);
        let read = self.complete + self.incomplete;
        self.complete > self.nodes - quorum
            || read >= if self.is_bootstrapped { quorum } else { self.nodes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_quorums_always_share_a_node() {
        for nodes in 1..=9 {
            assert!(2 * quorum(nodes) > nodes);
            assert!(2 * (quorum(nodes) - 1) <= nodes);
        }
    }

    #[test]
    fn clocks_of_minority_count_for_nothing() {
        let common = |seconds: &[u64], quorum| {
            let mut known: Vec<_> = seconds.iter().map(|s| Duration::from_secs(*s)).collect();
            common_wall(&mut known, quorum).map(|wall| wall.as_secs())
        };

        assert_eq!(common(&[100, 9_000, 101], 2), Some(101));
        assert_eq!(common(&[100, 1, 101], 2), Some(100));
        assert_eq!(common(&[9_000, 100, 1, 101, 8_000], 3), Some(101));
        assert_eq!(common(&[9_000, 100, 102, 101], 3), Some(101));
        assert_eq!(common(&[9_000, 100], 3), Some(100), "one is not known");
        assert_eq!(common(&[], 2), None);
    }

    #[test]
    fn validity_subtracts_slack() {
        let ms = Duration::from_millis;
        let valid = |ttl| validity(ttl, slack(ttl, 0.01));

        assert_eq!([10_000, 3_000, 400].map(|ttl| valid(ms(ttl))), [9_898, 2_968, 368].map(ms));
        assert_eq!(valid(ms(32)), Duration::ZERO);
    }

    #[test]
    fn slack_exceeds_each_unseen_step() {
        let ms = Duration::from_millis;

        for factor in [0.002, 0.01, 0.05] {
            let oldest = unseen_step(READING_AGE, Duration::ZERO, factor);
            for ttl in [50, 400, 2_000, 3_000, 60_000].map(ms) {
                let rest =
                    tolerated_step(ttl, factor).checked_sub(oldest).expect("it exceeds them");
                // A tenth of the factor, which is what the docs recommend for clocks that are slewed.
                let rates = (ttl + READING_AGE).mul_f64(factor / 10.0);
                assert!(rest + ms(1) > rates, "{factor}, {ttl:?}: {rest:?}");
            }
        }
        assert_eq!(unseen_step(ms(1_000), ms(5), 0.01), ms(17));
    }

    #[test]
    fn renewal_retry_is_bounded_twentieth() {
        let pause = |ms| renewal_retry(Duration::from_millis(ms)).as_millis();
        assert_eq!([20, 1_000, 60_000].map(pause), [2, 50, 250]);
    }

    #[test]
    fn complete_node_of_each_quorum_suffices() {
        let suffice = |nodes, complete, incomplete, is_bootstrapped| {
            Sources { nodes, complete, incomplete, is_bootstrapped }.suffice()
        };
        assert!(suffice(5, 3, 0, false) && !suffice(5, 2, 0, false));
        assert!(suffice(4, 2, 0, false) && !suffice(4, 1, 0, false));
        assert!(suffice(5, 2, 3, false) && !suffice(5, 2, 2, false), "or all are read");
        assert!(suffice(5, 0, 3, true) && !suffice(5, 0, 2, true), "or a new set's quorum");
    }

    #[test]
    fn node_timeout_is_at_most_tenth() {
        let fifty = Duration::from_millis(50);
        assert_eq!(node_timeout(fifty, Duration::from_millis(200)), Duration::from_millis(20));
        assert_eq!(node_timeout(fifty, Duration::from_secs(10)), fifty);
    }
}

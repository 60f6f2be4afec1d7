//! The formulas.

use std::time::Duration;

/// Added to every drift allowance: Redis expires keys with a precision of 1 ms, and so do we.
///
/// Source: *Distributed Locks with Redis* (redis.io), "Is the Algorithm Asynchronous?", and the
/// reference implementations, which all add 2 ms.
const DRIFT_FLOOR: Duration = Duration::from_millis(2);

/// ⌊n/2⌋+1: the smallest number of nodes of which any two sets share one.
pub const fn quorum(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// What is set aside for clocks that run at different rates: factor × TTL + 2 ms.
///
/// Source: *Distributed Locks with Redis* (redis.io), the `CLOCK_DRIFT` of the validity formula.
pub fn drift(ttl: Duration, factor: f64) -> Duration {
    ttl.mul_f64(factor).saturating_add(DRIFT_FLOOR)
}

/// TTL − drift: for how long from the start of the request a lease is valid. Zero if the drift is
/// as long as the TTL.
pub fn validity(ttl: Duration, factor: f64) -> Duration {
    ttl.saturating_sub(drift(ttl, factor))
}

/// The time that a node has to answer: the configured one, but never above a tenth of the TTL, so
/// that a hung minority cannot use up the validity.
pub fn node_timeout(configured: Duration, ttl: Duration) -> Duration {
    configured.min(ttl / 10)
}

/// How long to wait after a renewal that did not reach a quorum.
pub fn renewal_retry(validity: Duration) -> Duration {
    (validity / 20).clamp(Duration::from_millis(2), Duration::from_millis(250))
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
    fn validity_is_the_ttl_less_one_percent_and_two_milliseconds() {
        assert_eq!(validity(Duration::from_secs(10), 0.01), Duration::from_millis(9_898));
        assert_eq!(validity(Duration::from_millis(2), 0.01), Duration::ZERO);
    }

    #[test]
    fn the_node_timeout_never_exceeds_a_tenth_of_the_ttl() {
        let fifty = Duration::from_millis(50);
        assert_eq!(node_timeout(fifty, Duration::from_millis(200)), Duration::from_millis(20));
        assert_eq!(node_timeout(fifty, Duration::from_secs(10)), fifty);
    }
}

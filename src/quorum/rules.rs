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

/// What the strict clock guard sets aside: three times what wall clocks may differ by. The server
/// may differ by that from the holder, and from the next holder, and its clock may have moved by
/// that since it was compared.
pub fn margin(clock_guard: Option<Duration>) -> Duration {
    clock_guard.map_or(Duration::ZERO, |within| within.saturating_mul(3))
}

/// TTL − drift − margin: for how long from the start of the request a lease is valid. Zero if
/// nothing is left.
pub fn validity(ttl: Duration, factor: f64, clock_guard: Option<Duration>) -> Duration {
    ttl.saturating_sub(drift(ttl, factor)).saturating_sub(margin(clock_guard))
}

/// The time that a node has to answer: the configured one, but never above a tenth of the TTL, so
/// that a hung minority cannot use up the validity.
pub fn node_timeout(configured: Duration, ttl: Duration) -> Duration {
    configured.min(ttl / 10)
}

/// How long after the start of a round the next one is due.
pub fn renewal_interval(validity: Duration) -> Duration {
    validity / 3
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
        let ten = Duration::from_secs(10);
        assert_eq!(validity(ten, 0.01, None), Duration::from_millis(9_898));
        assert_eq!(validity(Duration::from_millis(2), 0.01, None), Duration::ZERO);
        let within = Some(Duration::from_millis(250));
        assert_eq!(validity(ten, 0.01, within), Duration::from_millis(9_148));
    }

    #[test]
    fn the_node_timeout_never_exceeds_a_tenth_of_the_ttl() {
        let fifty = Duration::from_millis(50);
        assert_eq!(node_timeout(fifty, Duration::from_millis(200)), Duration::from_millis(20));
        assert_eq!(node_timeout(fifty, Duration::from_secs(10)), fifty);
    }
}

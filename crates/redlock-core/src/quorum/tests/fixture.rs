//! The usual parameters of a lease in these tests.

use std::time::Duration;

use crate::quorum::LeaseParams;

pub(super) const VALIDITY: Duration = Duration::from_secs(9);
pub(super) const TIMEOUT: Duration = Duration::from_millis(50);
pub(super) const PROPOSAL: u64 = 1_000;

/// Returns parameters without slack and without a limit of the hold.
pub(super) fn lease_params(nodes: usize) -> LeaseParams {
    LeaseParams {
        nodes,
        validity: VALIDITY,
        slack: Duration::ZERO,
        node_timeout: TIMEOUT,
        max_hold: Duration::MAX,
        auto_extend: true,
        proposal: Some(PROPOSAL),
        block: 256,
        shared_at: None,
        lead_node: None,
    }
}

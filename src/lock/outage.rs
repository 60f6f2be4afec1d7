//! Detects that a quorum is known to be away, so that waiting does not help a request.

use std::time::Duration;

use super::{
    client::Client,
    settings::{OnOutage, Plan},
};
use crate::{error::LockError, node::NodeState, protocol::formulas, time::Timestamp};

/// Minimum time without a vote after which a node counts as away. A node that lost its connection
/// has then been tried at least five times.
const MIN_AWAY_TIME: Duration = Duration::from_secs(1);
/// The same in node timeouts: the time after which a server that does not answer counts as hung.
const AWAY_TIMEOUTS: u32 = 10;

impl Client {
    /// Returns whether a request that may wait until `until` has to end, as too few nodes can vote by
    /// then. `error` is the result of its latest attempt. Calls the nodes, so it must not be called under
    /// a mutex.
    pub(super) fn waits_in_vain(&self, plan: &Plan, error: &LockError, until: Timestamp) -> bool {
        if plan.on_outage == OnOutage::Wait || !matches!(error, LockError::NoQuorum { .. }) {
            return false;
        }
        crate::sync::assert_unlocked();
        let away_time = MIN_AWAY_TIME.max(self.settings.node_timeout * AWAY_TIMEOUTS);
        let left = until.saturating_duration_since(self.now());
        let states = self.nodes.iter().map(|node| node.health().state);
        let able = states.filter(|state| may_vote(state, away_time, left)).count();
        able < formulas::quorum(self.nodes.len())
    }
}

/// Returns whether a node in this state may vote within the time that is left.
fn may_vote(state: &NodeState, away_time: Duration, left: Duration) -> bool {
    match state {
        NodeState::Voting | NodeState::Connecting => true,
        NodeState::Down { since, .. } | NodeState::Refusing { since, .. } => *since < away_time,
        NodeState::Probation { remaining, since, .. } => *since < away_time || *remaining <= left,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Reason;

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns whether the node may vote within 5 s. It counts as away after 1 s.
    fn may_vote(state: &NodeState) -> bool {
        super::may_vote(state, SECOND, 5 * SECOND)
    }

    #[test]
    fn node_is_away_once_its_state_lasts() {
        let just = SECOND.saturating_sub(Duration::from_nanos(1));
        let down = |since| NodeState::Down { reason: Reason::Disconnected, since };
        let refusing = |since| NodeState::Refusing { reason: Reason::OutOfMemory, since };
        let probation = |remaining, since| NodeState::Probation { remaining, since, blocked: None };

        assert!(may_vote(&NodeState::Voting));
        assert!(may_vote(&NodeState::Connecting), "it was not tried yet");
        assert!(may_vote(&down(just)) && !may_vote(&down(SECOND)));
        assert!(may_vote(&refusing(just)) && !may_vote(&refusing(SECOND)));
        assert!(may_vote(&probation(9 * SECOND, just)));
        assert!(!may_vote(&probation(6 * SECOND, SECOND)), "it ends after the wait");
        assert!(may_vote(&probation(5 * SECOND, SECOND)), "it ends within the wait");
        assert!(may_vote(&probation(Duration::ZERO, 60 * SECOND)), "it waits for another node");
    }
}

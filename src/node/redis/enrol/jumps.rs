//! R10: what is done about a clock that jumped.

use std::{sync::atomic::Ordering, time::Duration};

use super::set::{Admin, NodeSet};
use crate::{
    lock::Jump,
    node::redis::status::{Bar, BarKind},
    quorum::offsets::{Interval, StoodStill},
    time::Timestamp,
};

impl NodeSet {
    /// A server's clock jumped; or ours stood still, which is then put right.
    ///
    /// If it was the server's, it has no vote until `until`.
    pub(in crate::node::redis) fn jumped(
        &self,
        node: usize,
        by: Interval,
        (now, until): (Timestamp, Timestamp),
    ) {
        let verdict = self.state().jury.report(node, by, now);
        let name = self.members()[node].status.name();
        if let Some(StoodStill { at_least, at_most, accused }) = &verdict {
            tracing::warn!(
                by = ?at_most,
                "a quorum of servers' clocks went ahead together: our own clock stood still; every deadline comes earlier by that"
            );
            let too_much = at_most.saturating_sub(*at_least).as_micros();
            let too_much = u64::try_from(too_much).unwrap_or(u64::MAX);
            self.overestimate.fetch_add(too_much, Ordering::AcqRel);
            self.clock.put_forward(*at_most);
            let mut state = self.state();
            state.enrolment.put_forward(*at_most);
            state.takeover.put_forward(*at_most);
            drop(state);
            for &node in accused {
                self.corrections[node].fetch_add(1, Ordering::AcqRel);
            }
            self.soundness.look_again();
        } else {
            tracing::warn!(
                node = %name,
                by = %Shown(by),
                "the server's clock jumped; it does not vote for max_ttl"
            );
            let bar = Bar::Clock { until, by };
            self.members()[node].status.set_bar(BarKind::Clock, Some(bar));
            let by_micros = by.low.midpoint(by.high);
            let at_most = Duration::from_micros(by.low.unsigned_abs().max(by.high.unsigned_abs()));
            self.soundness.jumped(self.first + node, Jump { seen: now, by_micros, at_most });
        }
        // Whose clock it was shows when the others are looked at; and who was accused without a
        // reason has its vote again with the next look.
        for (other, member) in self.members().iter().enumerate() {
            if other != node || verdict.is_some() {
                let _ = member.admin.send(Admin::Check);
            }
        }
    }
}

/// A jump as people say it.
struct Shown(Interval);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let middle = self.0.low.midpoint(self.0.high);
        let size = Duration::from_micros(middle.unsigned_abs());
        write!(f, "{size:.3?} {}", if middle < 0 { "back" } else { "forward" })
    }
}

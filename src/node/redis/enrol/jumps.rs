//! R10: what is done about a clock that jumped.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::set::{Admin, NodeSet};
use crate::{
    membership::{
        clock_jump_detector::{ClockJumpDetector, LocalPause, Sighting, Verdict},
        offsets::{Interval, Shift},
    },
    node::{
        ClockJump,
        redis::status::{Bar, BarKind},
    },
    time::{Clock, Timestamp},
};

/// What a correction of our own clock means for the readings of the servers'.
#[derive(Debug)]
pub(super) struct Corrections {
    /// How often our clock was put forward instead of what each node was accused of.
    nodes: Box<[AtomicU64]>,
    /// By how much, in µs, that may have been too much, all in all.
    overestimate: AtomicU64,
    /// Until when readings without a jump are of interest, in ns of our clock.
    tried_until: AtomicU64,
}

impl Corrections {
    pub(super) fn new(nodes: usize) -> Self {
        Self {
            nodes: (0..nodes).map(|_| AtomicU64::new(0)).collect(),
            overestimate: AtomicU64::new(0),
            tried_until: AtomicU64::new(0),
        }
    }
}

impl NodeSet {
    /// How often our clock was put forward instead of what the node was accused of.
    pub(in crate::node::redis) fn corrections(&self, node: usize) -> u64 {
        self.corrections.nodes[node].load(Ordering::Acquire)
    }

    /// By how much our clock may have been put forward too much, all in all.
    pub(in crate::node::redis) fn overestimate(&self) -> Duration {
        Duration::from_micros(self.corrections.overestimate.load(Ordering::Acquire))
    }

    /// A server's clock jumped; or ours stood still, which is then put right. The server has no
    /// vote until `until`, or until it is known that it was ours.
    pub(in crate::node::redis) fn jumped(&self, node: usize, jump: Sighting, until: Timestamp) {
        let bar = Bar::Clock { until, by: jump.by };
        self.members()[node].status.set_bar(BarKind::Clock, Some(bar));
        let verdict = self.ask_jury(|detector, is_read| detector.report(node, jump, is_read));
        // Whose clock it was shows when the others are looked at.
        self.look_at_all_but(Some(node));
        self.carry_out(verdict);
    }

    /// Whether it is being found out what jumps of servers' clocks are.
    pub(in crate::node::redis) fn tries_jumps(&self, now: Timestamp) -> bool {
        now.as_nanos() <= self.corrections.tried_until.load(Ordering::Acquire)
    }

    /// A server's clock did not jump.
    pub(in crate::node::redis) fn steady(&self, node: usize, shift: Shift, now: Timestamp) {
        let verdict = self.ask_jury(|detector, is_read| detector.steady(node, shift, now, is_read));
        self.carry_out(verdict);
    }

    /// A node's connection is over: it is not waited for.
    pub(super) fn try_jumps(&self) {
        let now = self.clock.now();
        if !self.tries_jumps(now) {
            return;
        }
        let verdict = self.ask_jury(|detector, is_read| detector.decide(now, is_read));
        self.carry_out(verdict);
    }

    fn ask_jury(
        &self,
        ask: impl FnOnce(&mut ClockJumpDetector, &dyn Fn(usize) -> bool) -> Verdict,
    ) -> Verdict {
        let mut state = self.state();
        let is_read = state.connected();
        let verdict = ask(&mut state.detector, &|node| is_read[node]);
        let until = state.detector.sits_until().as_nanos();
        self.corrections.tried_until.store(until, Ordering::Release);
        verdict
    }

    fn carry_out(&self, verdict: Verdict) {
        match verdict {
            Verdict::Open => {}
            Verdict::Jumped(jumps) => {
                for (node, Sighting { by, seen, .. }) in jumps {
                    let by_micros = by.low.midpoint(by.high);
                    let at_most = by.low.unsigned_abs().max(by.high.unsigned_abs());
                    let at_most = Duration::from_micros(at_most);
                    self.clock_jumps
                        .jumped(self.first + node, ClockJump { seen, by_micros, at_most });
                    crate::log::warn!(
                        node = %self.members()[node].status.name(),
                        by = %Shown(by),
                        "the server's clock jumped; it does not vote for max_ttl"
                    );
                }
            }
            Verdict::LocalPause(LocalPause { at_least, at_most, accused }) => {
                let too_much = at_most.saturating_sub(at_least).as_micros();
                let too_much = u64::try_from(too_much).unwrap_or(u64::MAX);
                self.corrections.overestimate.fetch_add(too_much, Ordering::AcqRel);
                self.clock.put_forward(at_most);
                let mut state = self.state();
                state.enrolment.put_forward(at_most);
                state.takeover.put_forward(at_most);
                drop(state);
                for node in accused {
                    self.members()[node].status.put_forward(at_most);
                    self.corrections.nodes[node].fetch_add(1, Ordering::AcqRel);
                }
                self.clock_jumps.look_again();
                crate::log::warn!(
                    by = ?at_most,
                    "a quorum of servers' clocks went ahead together: our own clock stood still; every deadline comes earlier by that"
                );
                // Who was accused without a reason has its vote again with the next look.
                self.look_at_all_but(None);
            }
        }
    }

    fn look_at_all_but(&self, node: Option<usize>) {
        for (other, member) in self.members().iter().enumerate() {
            if Some(other) != node {
                let _ = member.admin.send(Admin::Check);
            }
        }
    }
}

/// A jump, or a difference, as people say it.
pub(super) struct Shown(Interval);

impl Shown {
    /// In µs.
    pub(super) fn exactly(micros: i64) -> Self {
        Self(Interval { low: micros, high: micros })
    }
}

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let middle = self.0.low.midpoint(self.0.high);
        let size = Duration::from_micros(middle.unsigned_abs());
        write!(f, "{size:.3?} {}", if middle < 0 { "back" } else { "forward" })
    }
}

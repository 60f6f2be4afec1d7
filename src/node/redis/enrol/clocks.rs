//! Wrong wall clocks and clock jumps (R10).

use std::time::Duration;

use tokio::time::Instant;

use super::{AdminRequest, NodeSet};
use crate::{
    log_budget::MessageLevel,
    membership::{
        clock_jump_detector::{ClockJumpDetector, JumpVerdict, LocalPause, Sighting},
        offsets::{Interval, Shift},
    },
    node::{
        ClockJump, Finding,
        redis::{
            status_detail::{VoteObstacle, VoteObstacleKind},
            status_event::StatusEvent,
        },
    },
    protocol::formulas,
    sync::atomic::{AtomicBool, Ordering},
    time::{Clock, Timestamp},
    token::TOKEN_LEAD,
};

/// Distance from the limit, in µs, at which a clock counts as right again.
const HYSTERESIS: u64 = 5_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClockChange {
    None,
    Off,
    Right,
}

impl NodeSet {
    /// Compares the wall clocks of this process and of the servers, if the clocks of a quorum of
    /// servers agree. A clock that is off by more than the lead of fencing tokens is logged once
    /// and reported in the nodes' health.
    pub(crate) fn compare_clocks(&self, now: Timestamp) {
        let members = self.members();
        let quorum = formulas::quorum(members.len());
        let walls: Vec<_> = members.iter().map(|member| member.status.wall(now)).collect();
        let mut known: Vec<_> = walls.iter().flatten().copied().collect();
        let Some(common) = formulas::common_wall(&mut known, quorum) else { return };
        // Of two clocks that differ, neither is known to be right.
        let agrees = |wall: &&Duration| ahead(**wall, common).unsigned_abs() <= TOKEN_LEAD;
        if known.iter().filter(agrees).count() < quorum {
            return;
        }
        let own = ahead(self.clock.wall(), common);
        match compare(&self.off.own, own) {
            ClockChange::Off if self.is_logged() => crate::log::warn!(
                by = %SignedDuration::exactly(own),
                "this process's wall clock differs from the clocks of a quorum of servers: locks and fencing tokens use the servers' clocks, dates and schedules this process's"
            ),
            ClockChange::Right if self.is_logged() => {
                crate::log::info!("this process's wall clock is correct again");
            }
            ClockChange::None | ClockChange::Off | ClockChange::Right => {}
        }
        let own_is_off = self.off.own.load(Ordering::Relaxed);
        for ((member, wall), off) in members.iter().zip(walls).zip(&self.off.servers) {
            let mut findings = Vec::new();
            if own_is_off {
                findings.push(Finding::OwnClock { ahead_micros: own });
            }
            if let Some(wall) = wall {
                let server = ahead(wall, common);
                match compare(off, server) {
                    ClockChange::None => {}
                    ClockChange::Off => {
                        let by = SignedDuration::exactly(server).to_string();
                        member.status.report(StatusEvent::ClockOff { by });
                    }
                    ClockChange::Right => member.status.report(StatusEvent::ClockRight),
                }
                if off.load(Ordering::Relaxed) {
                    findings.push(Finding::ServerClock { ahead_micros: server });
                }
            }
            member.status.set_findings(findings);
        }
    }

    /// Returns the number of corrections of the local clock that cleared the node of a jump.
    pub(crate) fn corrections(&self, node: usize) -> u64 {
        self.corrections.nodes[node].load(Ordering::Acquire)
    }

    /// Returns the total possible overestimate of these corrections.
    pub(crate) fn overestimate(&self) -> Duration {
        Duration::from_micros(self.corrections.overestimate.load(Ordering::Acquire))
    }

    /// Handles an apparent jump of a server's clock, or a pause of the local one, which is
    /// corrected. The server has no vote until `until`, or until the pause is proven.
    pub(crate) fn jumped(&self, node: usize, jump: Sighting, until: Timestamp) {
        let obstacle = VoteObstacle::Clock { until, by: jump.by };
        self.members()[node].status.set_obstacle(VoteObstacleKind::Clock, Some(obstacle));
        let verdict = self.ask_detector(|detector, is_read| detector.report(node, jump, is_read));
        // The readings of the other nodes decide which clock jumped.
        self.check_all_except(Some(node));
        self.carry_out(verdict);
    }

    /// Returns whether jumps are being decided.
    pub(crate) fn is_deciding_jumps(&self, now: Timestamp) -> bool {
        now.as_nanos() <= self.corrections.tried_until.load(Ordering::Acquire)
    }

    /// Handles a reading without a jump.
    pub(crate) fn steady(&self, node: usize, shift: Shift, now: Timestamp) {
        let verdict =
            self.ask_detector(|detector, is_read| detector.steady(node, shift, now, is_read));
        self.carry_out(verdict);
    }

    /// Decides on jumps without a disconnected node.
    pub(super) fn decide_jumps(&self) {
        let now = self.clock.now();
        if !self.is_deciding_jumps(now) {
            return;
        }
        let verdict = self.ask_detector(|detector, is_read| detector.decide(now, is_read));
        self.carry_out(verdict);
    }

    fn ask_detector(
        &self,
        ask: impl FnOnce(&mut ClockJumpDetector, &dyn Fn(usize) -> bool) -> JumpVerdict,
    ) -> JumpVerdict {
        let mut state = self.state();
        let is_read = state.connected();
        let verdict = ask(&mut state.detector, &|node| is_read[node]);
        let until = state.detector.open_until().as_nanos();
        self.corrections.tried_until.store(until, Ordering::Release);
        verdict
    }

    fn carry_out(&self, verdict: JumpVerdict) {
        match verdict {
            JumpVerdict::Open => {}
            JumpVerdict::Jumped(jumps) => {
                for (node, Sighting { by, seen, .. }) in jumps {
                    let by_micros = by.low.midpoint(by.high);
                    let at_most = by.low.unsigned_abs().max(by.high.unsigned_abs());
                    let at_most = Duration::from_micros(at_most);
                    self.clock_jumps
                        .jumped(self.first + node, ClockJump { seen, by_micros, at_most });
                    let by = SignedDuration(by).to_string();
                    self.members()[node].status.report(StatusEvent::ClockJumped { by });
                }
            }
            JumpVerdict::LocalPause(LocalPause { at_least, at_most, accused }) => {
                let too_much = at_most.saturating_sub(at_least).as_micros();
                let too_much = u64::try_from(too_much).unwrap_or(u64::MAX);
                self.corrections.overestimate.fetch_add(too_much, Ordering::AcqRel);
                self.clock.put_forward(at_most);
                let mut state = self.state();
                state.enrolment.put_forward(at_most);
                drop(state);
                for node in accused {
                    self.members()[node].status.put_forward(at_most);
                    self.corrections.nodes[node].fetch_add(1, Ordering::AcqRel);
                }
                self.clock_jumps.recheck();
                if self.is_logged() {
                    crate::log::warn!(
                        by = ?at_most,
                        "local clock paused, as the clocks of a quorum of servers show; deadlines moved up"
                    );
                }
                // Cleared nodes vote again after the next health check.
                self.check_all_except(None);
            }
        }
    }

    /// Counts a message about this process's clock; returns whether it is logged.
    fn is_logged(&self) -> bool {
        let level = self.state().log.take(Instant::now());
        if level == MessageLevel::FirstInExcess {
            crate::log::warn!(
                "this process's clock is corrected often: from now on one correction a minute is logged"
            );
        }
        level == MessageLevel::Own
    }

    fn check_all_except(&self, node: Option<usize>) {
        for (other, member) in self.members().iter().enumerate() {
            if Some(other) != node {
                let _ = member.admin.send(AdminRequest::Check);
            }
        }
    }
}

/// Returns by how many µs one wall clock is ahead of another.
fn ahead(one: Duration, other: Duration) -> i64 {
    let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    micros(one).saturating_sub(micros(other))
}

/// Records whether a clock is off; returns what changed.
fn compare(was_off: &AtomicBool, ahead_micros: i64) -> ClockChange {
    let before = was_off.load(Ordering::Relaxed);
    let limit = if before { TOKEN_LEAD - HYSTERESIS } else { TOKEN_LEAD };
    let is_off = ahead_micros.unsigned_abs() > limit;
    was_off.store(is_off, Ordering::Relaxed);
    match (before, is_off) {
        (false, true) => ClockChange::Off,
        (true, false) => ClockChange::Right,
        _ => ClockChange::None,
    }
}

/// Displays a jump or a difference of clocks.
pub(super) struct SignedDuration(Interval);

impl SignedDuration {
    /// Creates the value from microseconds.
    pub(super) fn exactly(micros: i64) -> Self {
        Self(Interval { low: micros, high: micros })
    }
}

impl std::fmt::Display for SignedDuration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let middle = self.0.low.midpoint(self.0.high);
        let size = Duration::from_micros(middle.unsigned_abs());
        write!(f, "{size:.3?} {}", if middle < 0 { "back" } else { "forward" })
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::Scripted, *};
    use crate::node::redis::RestartGuard;

    #[test]
    fn clock_at_limit_is_reported_once() {
        let off = AtomicBool::new(false);
        let seconds = [59, 60, 61, -62, 60, 56, 61, 55, 60, -61];
        let changes = seconds.map(|seconds| compare(&off, seconds * 1_000_000));
        let told: Vec<_> =
            changes.into_iter().filter(|change| *change != ClockChange::None).collect();
        assert_eq!(told, [ClockChange::Off, ClockChange::Right, ClockChange::Off]);
        assert_eq!((changes[2], changes[7], changes[9]), (told[0], told[1], told[2]));
    }

    const MINUTE: i64 = 60_000_000;

    /// Returns the findings if the servers' clocks and the local one are ahead by these times, in
    /// µs.
    fn findings(servers: [Option<i64>; 3], own: i64) -> [Vec<Finding>; 3] {
        let scripted = Scripted::new("p");
        let set = &scripted.set;
        for (member, ahead) in set.members().iter().zip(servers) {
            if let Some(ahead) = ahead {
                member.status.set_ahead(ahead);
            }
        }
        let wall = i64::try_from(scripted.clock.wall().as_micros()).unwrap() + own;
        scripted.clock.set_wall(Duration::from_micros(wall.unsigned_abs()));
        set.compare_clocks(scripted.clock.now());
        [0, 1, 2].map(|node| set.members()[node].status.health().findings)
    }

    #[test]
    fn quorum_shows_which_clock_is_off() {
        let server = |ahead_micros| vec![Finding::ServerClock { ahead_micros }];
        let own = |ahead_micros| vec![Finding::OwnClock { ahead_micros }];
        let none = || [const { Vec::new() }; 3];

        let far = 2 * MINUTE;

        assert_eq!(findings([Some(0), Some(0), Some(0)], 0), none());
        assert_eq!(findings([Some(0), Some(0), Some(far)], 0), [vec![], vec![], server(far)]);
        assert_eq!(findings([Some(0), None, Some(0)], far), [(); 3].map(|()| own(far)));
        assert_eq!(findings([Some(0), Some(0), Some(0)], -far), [(); 3].map(|()| own(-far)));
        // Of two clocks that differ, neither is known to be right; a single clock is not a quorum.
        assert_eq!(findings([Some(0), Some(far), None], 0), none());
        assert_eq!(findings([None, Some(0), None], far), none());
    }

    /// A jump that is observed now, during the last second.
    fn sighting(scripted: &Scripted, by: i64) -> Sighting {
        let seen = scripted.clock.now();
        let since = seen.saturating_sub(Duration::from_secs(1));
        Sighting { by: Interval { low: by - 10, high: by + 10 }, since, seen }
    }

    fn jumped(scripted: &Scripted, node: usize, by: i64) {
        let until = scripted.clock.now() + Duration::from_secs(10);
        scripted.set.jumped(node, sighting(scripted, by), until);
    }

    #[test]
    fn jump_is_attributed_to_the_node() {
        let mut scripted = Scripted::beside(4, "p", RestartGuard::Probation);
        let set = std::sync::Arc::clone(&scripted.set);

        assert!(!set.is_deciding_jumps(scripted.clock.now()));

        jumped(&scripted, 2, -3_000_000);
        let (jumps, _) = set.clock_jumps.jumps_since(0);
        let [(node, jump)] = jumps[..] else { panic!("{jumps:?}") };
        assert_eq!((node, jump.by_micros), (6, -3_000_000), "behind four other nodes");
        assert_eq!(jump.at_most, Duration::from_micros(3_000_010));
        assert_eq!(scripted.checked(), [true, true, false], "those that can disprove a pause");

        // A pause of the local clock could still show in the readings of the other nodes.
        scripted.clock.advance(Duration::from_secs(5));
        assert!(set.is_deciding_jumps(scripted.clock.now()));

        scripted.clock.advance(Duration::from_nanos(1));
        assert!(!set.is_deciding_jumps(scripted.clock.now()));
        assert_eq!((set.corrections(2), set.overestimate()), (0, Duration::ZERO));
    }

    #[test]
    fn equal_jumps_correct_the_local_clock() {
        let mut scripted = Scripted::new("p");
        let set = std::sync::Arc::clone(&scripted.set);
        for node in 0..3 {
            set.state().run_ids[node] = Some("run".into());
            set.members()[node].status.set_ahead(0);
        }
        jumped(&scripted, 0, 3_000_000);
        jumped(&scripted, 1, 3_000_000);

        let before = set.clock.now();

        assert_eq!(set.clock.ahead(), Duration::ZERO, "the third one may disprove it");

        scripted.checked();
        set.left(2);
        let by = Duration::from_micros(3_000_010);
        assert_eq!(set.clock.now().saturating_duration_since(before), by);
        assert_eq!([0, 1, 2].map(|node| set.corrections(node)), [1, 1, 0]);
        assert_eq!(set.overestimate(), Duration::from_micros(20));
        assert_eq!(scripted.checked(), [true; 3]);
    }

    #[test]
    fn steady_node_disproves_the_pause() {
        let scripted = Scripted::new("p");
        let set = &scripted.set;
        (0..3).for_each(|node| set.state().run_ids[node] = Some("run".into()));
        jumped(&scripted, 0, 3_000_000);
        jumped(&scripted, 1, 3_000_000);
        let now = scripted.clock.now();
        let from = now.saturating_sub(Duration::from_secs(3));

        set.steady(2, Shift { from, asked: now, at_most: 1_000 }, now);

        assert_eq!(set.clock.ahead(), Duration::ZERO);

        let (jumps, _) = set.clock_jumps.jumps_since(0);
        assert_eq!(jumps.iter().map(|(node, _)| *node).collect::<Vec<_>>(), [0, 1]);
    }
}

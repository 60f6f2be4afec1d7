//! R10: distinguishes jumps of servers' clocks from a pause of the local clock.
//!
//! If the local clock paused (in a paused virtual machine), every server seems to have jumped
//! forward by that time, between two readings around the pause. So a quorum whose jumps are alike,
//! and can have happened at one moment, may show a local pause. A server that was read before and
//! after that moment, and cannot have advanced by so much, disproves it: the other clocks jumped
//! together, as a shared time source may make them. The decision waits until every connected node
//! has been read again, at most for 5 s; meanwhile nodes that jumped grant nothing. A slow answer
//! disproves nothing, and a disconnected node cannot be read.
//!
//! After a local pause, all deadlines move up by the maximum that it can have been, the nodes vote
//! again, and no probation gets shorter. Otherwise the jumps are the servers' own.
//!
//! Limit: if all connected servers jump alike, every client takes that for its own pause. Its locks
//! end, but for up to a second a holder that has not read a clock yet still considers a lock valid
//! that another client may be granted.

use std::time::Duration;

use super::offsets::{Interval, Shift};
use crate::{protocol::formulas, timestamp::Timestamp};

/// Classifies apparent jumps of servers' clocks.
#[derive(Debug)]
pub struct ClockJumpDetector {
    quorum: usize,
    slack: i64,
    nodes: Box<[NodeEvidence]>,
}

/// The evidence about one node.
#[derive(Clone, Copy, Debug, Default)]
struct NodeEvidence {
    jump: Option<SuspectedJump>,
    /// Bounds the clock's advance between the earlier readings and the latest one.
    shift: Option<Shift>,
}

/// An apparent jump, and whether it is already attributed to the server.
#[derive(Clone, Copy, Debug)]
struct SuspectedJump {
    jump: Sighting,
    /// Attributed to the server, unless more servers jump alike.
    is_decided: bool,
}

/// An apparent jump of a server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Bounds on the size of the jump, in µs.
    pub by: Interval,
    /// When the latest reading without the jump was sent.
    pub since: Timestamp,
    /// When the first reading with the jump was received.
    pub seen: Timestamp,
}

/// A decision of the detector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JumpVerdict {
    /// No decision yet.
    Open,
    /// The clocks of these nodes jumped.
    Jumped(Vec<(usize, Sighting)>),
    /// The local clock was paused.
    LocalPause(LocalPause),
}

/// A pause of the local clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalPause {
    /// Minimum length.
    pub at_least: Duration,
    /// Maximum length.
    pub at_most: Duration,
    /// The nodes whose apparent jumps the pause explains. Jumps of other nodes are real.
    pub accused: Vec<usize>,
}

/// Interval between two readings of a node.
const READ_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum time in which one pause shows in all nodes and is decided.
const DECISION_TIME: Duration = Duration::from_secs(5);

impl ClockJumpDetector {
    /// Creates a detector for a set of nodes.
    pub fn new(nodes: usize, drift_factor: f64) -> Self {
        let slack = formulas::drift(READ_INTERVAL, drift_factor);
        Self {
            quorum: formulas::quorum(nodes),
            slack: i64::try_from(slack.as_micros()).unwrap_or(i64::MAX),
            nodes: vec![NodeEvidence::default(); nodes].into_boxed_slice(),
        }
    }

    /// Records a jump of a node's clock. `is_read` returns whether a node is connected, and is read
    /// again soon.
    pub fn report(
        &mut self,
        node: usize,
        jump: Sighting,
        is_read: impl Fn(usize) -> bool,
    ) -> JumpVerdict {
        self.nodes[node] =
            NodeEvidence { jump: Some(SuspectedJump { jump, is_decided: false }), shift: None };
        self.decide(jump.seen, is_read)
    }

    /// Records a reading without a jump.
    pub fn steady(
        &mut self,
        node: usize,
        shift: Shift,
        now: Timestamp,
        is_read: impl Fn(usize) -> bool,
    ) -> JumpVerdict {
        self.nodes[node].shift = Some(shift);
        self.decide(now, is_read)
    }

    /// Decides what can be decided; also called when a node disconnects.
    pub fn decide(&mut self, now: Timestamp, is_read: impl Fn(usize) -> bool) -> JumpVerdict {
        let is_open = |seen: &SuspectedJump| !seen.is_decided || is_recent(&seen.jump, now);
        self.nodes.iter_mut().for_each(|node| node.jump = node.jump.filter(is_open));
        let mut jumped = Vec::new();
        for node in 0..self.nodes.len() {
            let Some(SuspectedJump { jump, is_decided: false }) = self.nodes[node].jump else {
                continue;
            };
            let accused = self.accused(jump, now);
            let (since, seen) = pause(&accused);
            // A single node has no other to be compared with.
            let may_be_pause =
                self.nodes.len() > 1 && accused.len() >= self.quorum && since <= seen;
            if may_be_pause && !self.is_disproved(&accused) {
                if self.awaits(&accused, &is_read) {
                    continue;
                }
                self.nodes.fill(NodeEvidence::default());
                return local_pause(&accused);
            }
            self.nodes[node].jump = Some(SuspectedJump { jump, is_decided: true });
            jumped.push((node, jump));
        }
        if jumped.is_empty() { JumpVerdict::Open } else { JumpVerdict::Jumped(jumped) }
    }

    /// Returns until when readings without a jump matter; [`Timestamp::MAX`] while a jump is
    /// undecided.
    pub fn open_until(&self) -> Timestamp {
        let until = |SuspectedJump { jump, is_decided }: SuspectedJump| {
            if is_decided { jump.seen + DECISION_TIME } else { Timestamp::MAX }
        };
        let jumps = self.nodes.iter().filter_map(|node| node.jump);
        jumps.map(until).max().unwrap_or(Timestamp::ZERO)
    }

    /// Returns the nodes whose jumps the same pause of the local clock can explain.
    fn accused(&self, jump: Sighting, now: Timestamp) -> Vec<(usize, Sighting)> {
        let is_alike = |other: &Sighting| {
            other.by.low > 0
                && other.by.low <= jump.by.high.saturating_add(self.slack)
                && jump.by.low <= other.by.high.saturating_add(self.slack)
                && other.since <= jump.seen
                && jump.since <= other.seen
        };
        let sightings = self.nodes.iter().enumerate();
        sightings
            .filter_map(|(node, node_evidence)| Some((node, node_evidence.jump?.jump)))
            .filter(|(_, other)| is_recent(other, now) && is_alike(other))
            .collect()
    }

    /// Returns whether a node that was read before and after the pause can't have advanced by it.
    ///
    /// The first reading may fall into the pause, for example when all nodes have just connected.
    /// If it came after the pause, nodes are barred needlessly, which is safe. A real jump of the
    /// node at that time may hide the pause, so such a node needs a reading from before it.
    fn is_disproved(&self, accused: &[(usize, Sighting)]) -> bool {
        let (since, seen) = pause(accused);
        let least = accused.iter().map(|(_, jump)| jump.by.low).max().unwrap_or(0);
        self.nodes.iter().any(|NodeEvidence { jump, shift }| {
            shift.is_some_and(|shift| {
                let is_before =
                    if jump.is_some() { shift.from <= since } else { shift.from < seen };
                is_before && shift.asked >= seen && shift.at_most < least
            })
        })
    }

    /// Returns whether a node that may disprove the pause has not been read since.
    fn awaits(&self, accused: &[(usize, Sighting)], is_read: impl Fn(usize) -> bool) -> bool {
        let (_, seen) = pause(accused);
        self.nodes.iter().enumerate().any(|(node, node_evidence)| {
            accused.iter().all(|(accused, _)| *accused != node)
                && is_read(node)
                && node_evidence.shift.is_none_or(|shift| shift.asked < seen)
        })
    }
}

fn is_recent(jump: &Sighting, now: Timestamp) -> bool {
    now.saturating_duration_since(jump.seen) <= DECISION_TIME
}

/// Returns the time that contains the pause of the local clock.
fn pause(accused: &[(usize, Sighting)]) -> (Timestamp, Timestamp) {
    let since = accused.iter().map(|(_, jump)| jump.since).max();
    let seen = accused.iter().map(|(_, jump)| jump.seen).min();
    (since.unwrap_or(Timestamp::ZERO), seen.unwrap_or(Timestamp::MAX))
}

fn local_pause(accused: &[(usize, Sighting)]) -> JumpVerdict {
    let most = accused.iter().map(|(_, jump)| jump.by.high).min().unwrap_or(0);
    let least = accused.iter().map(|(_, jump)| jump.by.low).max().unwrap_or(0);
    let micros = |micros: i64| Duration::from_micros(u64::try_from(micros).unwrap_or(0));
    JumpVerdict::LocalPause(LocalPause {
        at_least: micros(least.min(most)),
        at_most: micros(most),
        accused: accused.iter().map(|(node, _)| *node).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTOR: f64 = 0.01;
    const ALL: fn(usize) -> bool = |_| true;

    fn at(ms: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(100_000 + ms)
    }

    /// A jump by about `by` ms, detected at `ms`. The node was read without it a second before.
    fn jump(ms: u64, by: i64) -> Sighting {
        let by = Interval { low: by * 1_000 - 1_000, high: by * 1_000 + 1_000 };
        Sighting { by, since: at(ms).saturating_sub(Duration::from_secs(1)), seen: at(ms) }
    }

    /// A reading sent at `ms`, of a node with a long history.
    fn shift(ms: u64, at_most: i64) -> Shift {
        Shift { from: Timestamp::ZERO, asked: at(ms), at_most: at_most * 1_000 }
    }

    fn own(jumps: &[(usize, Sighting)]) -> JumpVerdict {
        JumpVerdict::Jumped(jumps.to_vec())
    }

    fn accused(verdict: &JumpVerdict) -> &[usize] {
        let JumpVerdict::LocalPause(pause) = verdict else { panic!("{verdict:?}") };
        &pause.accused
    }

    #[test]
    fn all_jump_alike_show_pause() {
        let mut detector = ClockJumpDetector::new(3, FACTOR);

        assert_eq!(detector.report(0, jump(0, 3_000), ALL), own(&[(0, jump(0, 3_000))]));
        assert_eq!(detector.report(2, jump(5, 3_000), ALL), JumpVerdict::Open, "node 1 may tell");
        let verdict = detector.report(1, jump(9, 2_999), ALL);

        assert_eq!(
            verdict,
            JumpVerdict::LocalPause(LocalPause {
                at_least: Duration::from_millis(2_999),
                at_most: Duration::from_secs(3),
                accused: vec![0, 1, 2],
            })
        );
        assert_eq!(detector.report(0, jump(10, 3_000), ALL), own(&[(0, jump(10, 3_000))]), "anew");
    }

    #[test]
    fn a_steady_clock_disproves_a_pause() {
        let mut detector = ClockJumpDetector::new(3, FACTOR);
        detector.report(0, jump(0, 3_000), ALL);
        detector.report(2, jump(5, 3_000), ALL);
        assert_eq!(detector.steady(1, shift(1, 15), at(20), ALL), own(&[(2, jump(5, 3_000))]));
        assert_eq!(detector.steady(1, shift(30, 15), at(31), ALL), JumpVerdict::Open, "told once");
    }

    #[test]
    fn steady_clock_counts_before_second_jump() {
        let mut detector = ClockJumpDetector::new(3, FACTOR);
        detector.report(0, jump(0, 3_000), ALL);
        assert_eq!(detector.steady(1, shift(1, 15), at(2), ALL), JumpVerdict::Open);
        assert_eq!(detector.report(2, jump(5, 3_000), ALL), own(&[(2, jump(5, 3_000))]));
    }

    #[test]
    fn reading_needs_one_before_and_after() {
        for (shift, spoke) in [
            (shift(0, 15), true),
            // Asked for before the pause can have been over.
            (
                Shift { asked: at(0).saturating_sub(Duration::from_millis(1)), ..shift(0, 15) },
                false,
            ),
            // The first one of its node; a slow one.
            (Shift { from: at(0), ..shift(0, 15) }, true),
            (shift(0, 3_000), true),
            // It may have advanced by exactly the least length of the pause.
            (shift(0, 2_999), true),
        ] {
            let mut detector = ClockJumpDetector::new(3, FACTOR);
            detector.report(0, jump(0, 3_000), ALL);
            detector.steady(1, shift, at(3), ALL);

            let verdict = detector.report(2, jump(5, 3_000), ALL);

            let proves = shift == self::tests::shift(0, 15);
            match verdict {
                JumpVerdict::Jumped(_) => assert!(proves, "{shift:?}"),
                JumpVerdict::Open => assert!(!spoke, "{shift:?}"),
                JumpVerdict::LocalPause(pause) => {
                    assert!(spoke && !proves, "{shift:?}");
                    assert_eq!(pause.accused, [0, 2]);
                }
            }
        }
    }

    #[test]
    fn node_away_is_not_waited_for() {
        let mut detector = ClockJumpDetector::new(3, FACTOR);
        detector.report(0, jump(0, 3_000), ALL);
        assert_eq!(detector.report(2, jump(5, 3_000), ALL), JumpVerdict::Open);
        assert_eq!(accused(&detector.decide(at(900), |node| node != 1)), [0, 2]);
    }

    #[test]
    fn nothing_is_forgiven_long_after() {
        let mut detector = ClockJumpDetector::new(3, FACTOR);
        detector.report(0, jump(0, 3_000), ALL);
        detector.report(2, jump(5, 3_000), ALL);
        assert_eq!(detector.open_until(), Timestamp::MAX);
        let late = at(0) + DECISION_TIME + Duration::from_millis(1);
        assert_eq!(detector.decide(late, |_| false), own(&[(2, jump(5, 3_000))]));
        assert_eq!(detector.open_until(), at(5) + DECISION_TIME);
    }

    #[test]
    fn jumps_at_other_times_are_servers() {
        let mut detector = ClockJumpDetector::new(3, FACTOR);
        let away = |_| false;

        for jump in [
            jump(0, 3_000),
            jump(100, 9_000),
            // The first had jumped before this one was read without it.
            jump(1_101, 3_000),
            jump(60_000, 3_000),
            jump(60_001, -3_000),
        ] {
            let node = usize::from(jump != self::tests::jump(0, 3_000));
            assert_eq!(detector.report(node, jump, away), own(&[(node, jump)]));
        }
    }

    #[test]
    fn disjoint_jumps_are_the_servers() {
        let mut detector = ClockJumpDetector::new(5, FACTOR);
        let within = |since, seen| Sighting { since: at(since), ..jump(seen, 3_000) };
        detector.report(0, within(0, 500), |_| false);
        detector.report(1, within(600, 900), |_| false);
        let last = within(100, 1_000);
        assert_eq!(detector.report(2, last, |_| false), own(&[(2, last)]));
    }

    /// Two of three servers show a pause of the local clock. The third one jumped, and stays
    /// barred.
    #[test]
    fn another_jump_is_not_among_accused() {
        let mut detector = ClockJumpDetector::new(3, FACTOR);
        detector.report(1, jump(0, 299_000), ALL);
        detector.report(0, jump(100, 2_990), ALL);
        assert_eq!(detector.report(2, jump(900, 2_990), ALL), JumpVerdict::Open);
        let since = Shift { from: at(0), ..shift(901, 15) };
        assert_eq!(accused(&detector.steady(1, since, at(902), ALL)), [0, 2]);
    }

    /// An earlier jump of a node does not disqualify its later readings.
    #[test]
    fn earlier_jump_leaves_node_a_witness() {
        let mut detector = ClockJumpDetector::new(3, FACTOR);
        detector.report(1, jump(0, 9_000), ALL);
        detector.report(0, jump(2_000, 3_000), ALL);
        detector.report(2, jump(2_001, 3_000), ALL);
        let since = Shift { from: at(0), ..shift(2_002, 15) };
        assert_eq!(detector.steady(1, since, at(2_003), ALL), own(&[(2, jump(2_001, 3_000))]));
    }

    #[test]
    fn single_node_jumps_by_its_report() {
        let mut detector = ClockJumpDetector::new(1, FACTOR);
        assert_eq!(detector.report(0, jump(0, 3_000), ALL), own(&[(0, jump(0, 3_000))]));
    }
}

//! Wall clocks that are off: ours, and the servers' from each other's.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use super::{jumps::Shown, set::NodeSet};
use crate::{
    node::Finding,
    protocol::rules,
    time::{Clock, Timestamp},
    token::TOKEN_LEAD,
};

/// Which wall clocks were off when they were last compared.
#[derive(Debug)]
pub(super) struct Off {
    own: AtomicBool,
    servers: Box<[AtomicBool]>,
}

/// How much less than the limit a clock has to be off, in µs, to count as right again.
const HYSTERESIS: u64 = 5_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    None,
    Off,
    Right,
}

impl Off {
    pub(super) fn new(nodes: usize) -> Self {
        let servers = (0..nodes).map(|_| AtomicBool::new(false)).collect();
        Self { own: AtomicBool::new(false), servers }
    }
}

impl NodeSet {
    /// Compares the wall clocks with those of a quorum of servers, where so many agree. Where one is
    /// off by more than fencing tokens may be ahead, that is logged once, and shown with the health
    /// of the nodes.
    pub(in crate::node::redis) fn compare_clocks(&self, now: Timestamp) {
        let members = self.members();
        let quorum = rules::quorum(members.len());
        let walls: Vec<_> = members.iter().map(|member| member.status.wall(now)).collect();
        let mut known: Vec<_> = walls.iter().flatten().copied().collect();
        let Some(common) = rules::common_wall(&mut known, quorum) else { return };
        // Two that differ, while others are away, don't tell which of them is right.
        let agrees = |wall: &&Duration| ahead(**wall, common).unsigned_abs() <= TOKEN_LEAD;
        if known.iter().filter(agrees).count() < quorum {
            return;
        }
        let own = ahead(self.clock.wall(), common);
        match compare(&self.off.own, own) {
            Change::None => {}
            Change::Off => crate::log::warn!(
                by = %Shown::exactly(own),
                "this process's wall clock is off from those of a quorum of servers: locks and fencing tokens go by theirs, dates and schedules by ours"
            ),
            Change::Right => crate::log::info!("this process's wall clock is right again"),
        }
        let own_is_off = self.off.own.load(Ordering::Relaxed);
        for ((member, wall), off) in members.iter().zip(walls).zip(&self.off.servers) {
            let mut findings = Vec::new();
            if own_is_off {
                findings.push(Finding::OwnClock { ahead_micros: own });
            }
            if let Some(wall) = wall {
                let server = ahead(wall, common);
                let node = member.status.name();
                match compare(off, server) {
                    Change::None => {}
                    Change::Off => crate::log::warn!(
                        %node,
                        by = %Shown::exactly(server),
                        "the server's wall clock is off from those of a quorum of servers: where it is behind, it takes none of their fencing tokens"
                    ),
                    Change::Right => {
                        crate::log::info!(%node, "the server's wall clock is right again");
                    }
                }
                if off.load(Ordering::Relaxed) {
                    findings.push(Finding::ServerClock { ahead_micros: server });
                }
            }
            member.status.set_findings(findings);
        }
    }
}

/// By how many µs one wall clock is ahead of another.
fn ahead(one: Duration, other: Duration) -> i64 {
    let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    micros(one).saturating_sub(micros(other))
}

/// Notes whether a clock is off, and tells whether that is new.
fn compare(was_off: &AtomicBool, ahead_micros: i64) -> Change {
    let before = was_off.load(Ordering::Relaxed);
    let limit = if before { TOKEN_LEAD - HYSTERESIS } else { TOKEN_LEAD };
    let is_off = ahead_micros.unsigned_abs() > limit;
    was_off.store(is_off, Ordering::Relaxed);
    match (before, is_off) {
        (false, true) => Change::Off,
        (true, false) => Change::Right,
        _ => Change::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_at_the_limit_is_told_of_once() {
        let off = AtomicBool::new(false);
        let seconds = [59, 60, 61, -62, 60, 56, 61, 55, 60, -61];
        let changes = seconds.map(|seconds| compare(&off, seconds * 1_000_000));
        let told: Vec<_> = changes.into_iter().filter(|change| *change != Change::None).collect();
        assert_eq!(told, [Change::Off, Change::Right, Change::Off]);
        assert_eq!((changes[2], changes[7], changes[9]), (told[0], told[1], told[2]));
    }
}

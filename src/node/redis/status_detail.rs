//! The details of a server's status, under its mutex, and the reasons for which it has no vote.

use std::sync::Arc;

use tokio::time::Instant;

use super::{
    breaks::Breaks,
    permissions::Denied,
    status_event::{StatusEvent, StatusEventQueue},
};
use crate::{
    error::Reason,
    log_budget::{LogBudget, MessageLevel},
    membership::offsets::Interval,
    metrics::NodeGauges,
    node::{Blocked, CopyProgress, Finding, Memory, NodeHealth, NodeState},
    time::Timestamp,
};

#[derive(Debug)]
pub(super) struct StatusDetail {
    pub(super) state: ConnectionState,
    pub(super) obstacles: [Option<(VoteObstacle, Timestamp)>; 5],
    /// Progress and start of the copying of records to the server.
    pub(super) copying: Option<(Copied, Timestamp)>,
    /// The limitations of the server that were found by the latest handshake.
    pub(super) limits: Arc<[Finding]>,
    /// Other properties of the server.
    pub(super) known: NodeHealth,
    pub(super) denied: Denied,
    /// Breaks of the connection for votes, after its first health check.
    pub(super) breaks: Breaks,
    /// Breaks of the connection for wake-ups, while the server is up.
    pub(super) wakeup_breaks: Breaks,
    /// The latest failure to end the probation, and the number of failures.
    pub(super) blocked: Option<(Blocked, u32)>,
    pub(super) events: StatusEventQueue,
    log: LogBudget,
}

/// The records that a client copied to a server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Copied {
    pub(super) records: u64,
    pub(super) bytes: u64,
}

#[derive(Debug)]
pub(super) enum ConnectionState {
    Connecting,
    Up,
    /// `latest` is the time of the latest refused vote.
    Refusing {
        reason: Reason,
        since: Timestamp,
        latest: Timestamp,
    },
    Down {
        reason: Reason,
        since: Timestamp,
    },
}

impl StatusDetail {
    pub(super) fn new(name: &str) -> Self {
        Self {
            state: ConnectionState::Connecting,
            obstacles: [const { None }; 5],
            copying: None,
            limits: Arc::default(),
            known: NodeHealth::voting(name),
            denied: Denied::default(),
            breaks: Breaks::default(),
            wakeup_breaks: Breaks::default(),
            blocked: None,
            events: StatusEventQueue::default(),
            log: LogBudget::new(Instant::now()),
        }
    }

    pub(super) fn queue(&mut self, event: Option<StatusEvent>, now: Timestamp) {
        let is_up = matches!(self.state, ConnectionState::Up | ConnectionState::Refusing { .. });
        let is_barred = self.obstacles.iter().any(Option::is_some);
        let is_voting = matches!(self.state, ConnectionState::Up) && !is_barred;
        if let Some(excess) = self.log.settle(Instant::now()) {
            let state = self.health(now).state;
            let settled = StatusEvent::Settled { excess, state };
            self.events.queue.push_back((settled, MessageLevel::Own));
        }
        if let Some(event) = event {
            let level =
                if event.is_counted() { self.log.take(Instant::now()) } else { MessageLevel::Own };
            self.events.queue.push_back((event, level));
        }
        let is_probation = |(obstacle, _): &(VoteObstacle, Timestamp)| {
            matches!(obstacle, VoteObstacle::Probation { .. })
        };
        let is_in_probation = is_up && self.obstacles.iter().flatten().any(is_probation);
        debug_assert!(!(is_voting && is_in_probation), "a node in probation has no vote");
        let gauges = StatusEvent::Gauges(NodeGauges { is_up, is_voting, is_in_probation });
        self.events.queue.push_back((gauges, MessageLevel::Own));
    }

    /// Returns an event if the server may evict keys and was not known to.
    pub(super) fn begins_to_evict(&self, memory: &Memory) -> Option<StatusEvent> {
        let is_known = self.known.memory.as_ref().is_some_and(|old| old.is_set_as(memory));
        (memory.evicts() && !is_known).then(|| StatusEvent::Evicts {
            policy: Arc::clone(&memory.policy),
            limit: memory.limit,
        })
    }

    pub(super) fn health(&self, now: Timestamp) -> NodeHealth {
        let obstacle = self.obstacles.iter().flatten().find_map(|(obstacle, since)| {
            Some((obstacle.reason(now)?, now.saturating_duration_since(*since)))
        });
        let state = match (&self.state, obstacle) {
            (ConnectionState::Connecting, _) => NodeState::Connecting,
            (ConnectionState::Down { reason, since }, _) => NodeState::Down {
                reason: reason.clone(),
                since: now.saturating_duration_since(*since),
            },
            (_, Some((Reason::Probation { remaining }, since))) => {
                let blocked = self.blocked.as_ref().map(|(blocked, _)| blocked.clone());
                NodeState::Probation { remaining, since, blocked }
            }
            (_, Some((reason, since))) => NodeState::Refusing { reason, since },
            (ConnectionState::Refusing { reason, since, .. }, None) => NodeState::Refusing {
                reason: reason.clone(),
                since: now.saturating_duration_since(*since),
            },
            (ConnectionState::Up, None) => NodeState::Voting,
        };
        let is_there = !matches!(state, NodeState::Connecting | NodeState::Down { .. });
        let copying = self.copying.filter(|_| is_there).map(|(copied, since)| {
            CopyProgress::new(copied.records, copied.bytes, now.saturating_duration_since(since))
        });
        let mut findings = self.known.findings.clone();
        if is_there {
            findings.extend(self.limits.iter().cloned());
        }
        if let Some((broken, reason)) = self.breaks.many(now) {
            findings.push(Finding::UnstableConnection { broken, reason });
        }
        if let Some((broken, reason)) = self.wakeup_breaks.many(now) {
            findings.push(Finding::UnstableWakeUps { broken, reason });
        }
        let denied = self.denied.commands();
        NodeHealth { state, denied, copying, findings, ..self.known.clone() }
    }
}

/// A reason for which a connected server has no vote.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum VoteObstacle {
    Probation { until: Timestamp },
    Clock { until: Timestamp, by: Interval },
    Reason(Reason),
}

/// The source of an obstacle. Obstacles are independent of each other; the first one is shown.
#[derive(Clone, Copy, Debug)]
pub(super) enum VoteObstacleKind {
    SameServer,
    Enrolment,
    Names,
    Eviction,
    Clock,
}

impl VoteObstacle {
    /// Returns the reason; `None` once it has ended.
    pub(super) fn reason(&self, now: Timestamp) -> Option<Reason> {
        match self {
            Self::Probation { until } => {
                Some(Reason::Probation { remaining: until.saturating_duration_since(now) })
            }
            Self::Clock { until, .. } if now >= *until => None,
            Self::Clock { by, .. } => {
                Some(Reason::ClockJumped { by_micros: by.low.midpoint(by.high) })
            }
            Self::Reason(reason) => Some(reason.clone()),
        }
    }

    /// Returns the event to emit when it is set.
    pub(super) fn event(&self, now: Timestamp) -> Option<StatusEvent> {
        match self {
            Self::Probation { until } => {
                Some(StatusEvent::Probation { votes_in: until.saturating_duration_since(now) })
            }
            // The caller logs this obstacle, with the action taken.
            Self::Clock { .. } => None,
            Self::Reason(reason) => Some(StatusEvent::NoVote { reason: reason.clone() }),
        }
    }

    pub(super) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
            && match (self, other) {
                (Self::Reason(reason), Self::Reason(other)) => reason == other,
                _ => true,
            }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The messages that were logged at their level since the last call.
    fn logged(detail: &mut StatusDetail) -> Vec<StatusEvent> {
        let events = detail.events.queue.drain(..);
        let is_logged = |level| level != MessageLevel::Debug;
        let events = events
            .filter(|(event, level)| is_logged(*level) && !matches!(event, StatusEvent::Gauges(_)));
        events.map(|(event, _)| event).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn last_state_of_many_is_logged() {
        let now = Timestamp::ZERO;
        let mut detail = StatusDetail::new("a");
        for _ in 0..100 {
            detail.state = ConnectionState::Up;
            detail.queue(Some(StatusEvent::Up), now);
            detail.state =
                ConnectionState::Down { reason: Reason::Disconnected, since: Timestamp::ZERO };
            detail.queue(Some(StatusEvent::Down { reason: Reason::Disconnected }), now);
        }
        let count = logged(&mut detail).len();
        assert!(count > 10 && count < 30, "{count} messages");

        tokio::time::advance(Duration::from_secs(59)).await;
        detail.queue(None, now);
        assert!(logged(&mut detail).is_empty());
        tokio::time::advance(Duration::from_secs(1)).await;
        detail.queue(None, now);
        let last = logged(&mut detail);
        let [StatusEvent::Settled { state: NodeState::Down { .. }, .. }] = &last[..] else {
            panic!("{last:?}")
        };
        detail.queue(None, now);
        assert!(logged(&mut detail).is_empty(), "once");
    }
}

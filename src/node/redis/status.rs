use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::{
    error::Reason,
    node::{NodeHealth, NodeState},
    time::{Clock, Timestamp},
};

/// What the supervisor knows of its server, shared with those who send.
#[derive(Debug)]
pub(super) struct Status {
    name: Arc<str>,
    clock: Arc<dyn Clock>,
    /// Read on every operation; the rest only where it is set.
    down: AtomicBool,
    refusing: AtomicBool,
    pub(super) in_flight: AtomicUsize,
    detail: Mutex<Detail>,
}

#[derive(Debug)]
struct Detail {
    state: State,
    round_trip: Option<Duration>,
    version: Option<Arc<str>>,
}

#[derive(Debug)]
enum State {
    Connecting,
    Up,
    Refusing { reason: Reason, since: Timestamp },
    Down { reason: Reason, since: Timestamp },
}

impl Status {
    pub(super) fn new(name: Arc<str>, clock: Arc<dyn Clock>) -> Self {
        let detail = Detail { state: State::Connecting, round_trip: None, version: None };
        Self {
            name,
            clock,
            down: AtomicBool::new(false),
            refusing: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            detail: Mutex::new(detail),
        }
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Why operations fail at once, if they do.
    pub(super) fn down(&self) -> Option<Reason> {
        if !self.down.load(Ordering::Acquire) {
            return None;
        }
        match &self.detail().state {
            State::Down { reason, .. } => Some(reason.clone()),
            State::Connecting | State::Up | State::Refusing { .. } => None,
        }
    }

    pub(super) fn set_up(&self, version: Option<Arc<str>>, round_trip: Duration) {
        let mut detail = self.detail();
        if let State::Down { since, .. } = &detail.state {
            let outage = self.clock.now().since(*since);
            tracing::info!(node = %self.name, ?outage, "node is up again");
        } else {
            tracing::info!(node = %self.name, "node is up");
        }
        detail.state = State::Up;
        detail.version = version;
        detail.round_trip = Some(round_trip);
        self.down.store(false, Ordering::Release);
    }

    pub(super) fn set_down(&self, reason: Reason) {
        let mut detail = self.detail();
        let since = match &detail.state {
            State::Down { since, reason: known } => {
                if *known != reason {
                    tracing::warn!(node = %self.name, %reason, "node is still down");
                }
                *since
            }
            State::Connecting | State::Up | State::Refusing { .. } => {
                tracing::warn!(node = %self.name, %reason, "node is down");
                self.clock.now()
            }
        };
        detail.state = State::Down { reason, since };
        detail.round_trip = None;
        self.refusing.store(false, Ordering::Release);
        self.down.store(true, Ordering::Release);
    }

    /// The server is there, and refuses what it is asked for.
    pub(super) fn set_refusing(&self, reason: &Reason) {
        let mut detail = self.detail();
        if let State::Refusing { reason: known, .. } = &mut detail.state {
            known.clone_from(reason);
            return;
        }
        tracing::warn!(node = %self.name, %reason, "node refuses");
        detail.state = State::Refusing { reason: reason.clone(), since: self.clock.now() };
        self.refusing.store(true, Ordering::Release);
    }

    /// A vote counted, or a probe was taken.
    pub(super) fn set_obliging(&self) {
        if !self.refusing.swap(false, Ordering::AcqRel) {
            return;
        }
        let mut detail = self.detail();
        if let State::Refusing { since, .. } = &detail.state {
            let outage = self.clock.now().since(*since);
            tracing::info!(node = %self.name, ?outage, "node refuses no longer");
            detail.state = State::Up;
        }
    }

    pub(super) fn refuses(&self) -> bool {
        self.refusing.load(Ordering::Acquire)
    }

    pub(super) fn set_round_trip(&self, round_trip: Duration) {
        self.detail().round_trip = Some(round_trip);
    }

    pub(super) fn health(&self) -> NodeHealth {
        let detail = self.detail();
        let state = match &detail.state {
            State::Connecting => NodeState::Connecting,
            State::Up => NodeState::Voting,
            State::Refusing { reason, since } => NodeState::Refusing {
                reason: reason.clone(),
                since: self.clock.now().since(*since),
            },
            State::Down { reason, since } => {
                NodeState::Down { reason: reason.clone(), since: self.clock.now().since(*since) }
            }
        };
        NodeHealth {
            state,
            round_trip: detail.round_trip,
            version: detail.version.clone(),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            ..NodeHealth::voting(&self.name)
        }
    }

    fn detail(&self) -> std::sync::MutexGuard<'_, Detail> {
        crate::sync::lock(&self.detail)
    }
}

use std::{
    sync::{
        Arc, Mutex, PoisonError,
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
    Down { reason: Reason, since: Timestamp },
}

impl Status {
    pub(super) fn new(name: Arc<str>, clock: Arc<dyn Clock>) -> Self {
        let detail = Detail { state: State::Connecting, round_trip: None, version: None };
        Self {
            name,
            clock,
            down: AtomicBool::new(false),
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
            State::Connecting | State::Up => None,
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
            State::Connecting | State::Up => {
                tracing::warn!(node = %self.name, %reason, "node is down");
                self.clock.now()
            }
        };
        detail.state = State::Down { reason, since };
        detail.round_trip = None;
        self.down.store(true, Ordering::Release);
    }

    pub(super) fn set_round_trip(&self, round_trip: Duration) {
        self.detail().round_trip = Some(round_trip);
    }

    pub(super) fn health(&self) -> NodeHealth {
        let detail = self.detail();
        let state = match &detail.state {
            State::Connecting => NodeState::Connecting,
            State::Up => NodeState::Voting,
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
        self.detail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

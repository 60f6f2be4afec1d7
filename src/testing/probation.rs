//! The probations of simulated servers that forgot.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use super::sim_state::{SimState, VoteState};
use crate::{
    node::EmbeddedNodes,
    protocol::formulas,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
        lock,
    },
    time::Timestamp,
    token::TOKEN_LEAD,
};

/// The probations of a set of servers that may have forgotten locks, as under
/// [`RestartGuard::Probation`](crate::node::redis::RestartGuard): see R6 in `docs/guarantees.md`.
#[derive(Debug)]
pub(super) struct Probations {
    servers: OnceLock<Vec<Weak<Mutex<SimState>>>>,
    /// Maximum TTL that clients requested, in ms.
    max_ttl: AtomicU64,
    /// Held while probations are ended.
    ending: Mutex<()>,
}

/// The default TTL of a manager, in ms.
const DEFAULT_TTL: u64 = 10_000;
/// The default drift factor of a manager.
const DRIFT_FACTOR: f64 = 0.01;
/// Time from the end of a probation to the first token above the floor, in µs.
const FLOOR_SLACK: u64 = 1_000;

impl Probations {
    pub(super) fn new() -> Self {
        let max_ttl = AtomicU64::new(DEFAULT_TTL);
        Self { servers: OnceLock::new(), max_ttl, ending: Mutex::default() }
    }

    /// Sets the states of the servers, once.
    pub(super) fn of<'a>(&self, servers: impl Iterator<Item = &'a Arc<Mutex<SimState>>>) {
        self.servers.get_or_init(|| servers.map(Arc::downgrade).collect());
    }

    pub(super) fn asked_for(&self, ttl: Duration) {
        let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        self.max_ttl.fetch_max(millis, Ordering::Relaxed);
    }

    /// Duration of a probation: the maximum requested TTL and its drift.
    pub(super) fn length(&self) -> Duration {
        let max_ttl = Duration::from_millis(self.max_ttl.load(Ordering::Relaxed));
        max_ttl.saturating_add(formulas::drift(max_ttl, DRIFT_FACTOR))
    }

    /// Ends the probations that are over: the servers learn from the others if enough vote, or a
    /// quorum starts with an empty state.
    pub(super) fn end(&self, now: Timestamp) {
        let _ending = lock(&self.ending);
        let servers: Vec<_> =
            self.servers.get().into_iter().flatten().filter_map(Weak::upgrade).collect();
        let of = |state| {
            let servers =
                servers.iter().filter(move |server| lock(server).vote_state(now) == state);
            servers.cloned().collect::<Vec<_>>()
        };
        let (due, voting) = (of(VoteState::Due), of(VoteState::Votes));
        let quorum = formulas::quorum(servers.len());
        if voting.len() > servers.len() - quorum {
            for server in &due {
                let set = set_of(server);
                for other in &voting {
                    set.learn(&set_of(other));
                }
            }
        } else if due.len() >= quorum {
            let sets = || servers.iter().map(|server| set_of(server));
            let wall = sets().map(|set| set.wall()).max().unwrap_or_default();
            let wall = u64::try_from(wall.as_micros()).unwrap_or(u64::MAX);
            let ahead = wall.saturating_add(TOKEN_LEAD - FLOOR_SLACK);
            let floor = sets().map(|set| set.greatest_fence()).fold(ahead, u64::max);
            for server in &due {
                set_of(server).forget(floor);
            }
        } else {
            return;
        }
        for server in &due {
            lock(server).probation = None;
        }
    }
}

/// Returns what a server stores.
fn set_of(server: &Mutex<SimState>) -> EmbeddedNodes {
    lock(server).set.clone()
}

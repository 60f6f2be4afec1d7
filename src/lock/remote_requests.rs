//! Requests of other processes for leases that linger with this one.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use crate::{
    node::{Hint, Hints, Node, Subscription, owner_channel},
    protocol::formulas,
    resource::Resource,
    sync::{
        Guard, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Timers, Timestamp},
};

/// Maximum number of leases of a manager that linger, or lingered before they were taken over.
const MAX_LINGERING: usize = 10_000;

/// Time for which leases of a name do not linger after another process asked for it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Maximum of that time, which doubles if another process asks for the name within [`PAUSE_MEMORY`] of
/// its end.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Time for which a pause is remembered after its end.
const PAUSE_MEMORY: Duration = Duration::from_secs(60);
/// Number of names from which on expired ones are removed.
const FIRST_SWEEP: usize = 64;

/// The leases of a manager that may linger.
pub(crate) trait LingeringLeases: fmt::Debug + Send + Sync {
    /// Records that another process was refused this name at this time.
    fn asked(&self, name: &str, at: Timestamp);
    /// Records that no other process waits any more to write the name.
    fn withdrawn(&self, name: &str);
    /// Releases all leases that linger.
    fn end_all(&self);
}

/// The subscription to requests of other processes for leases of this manager.
///
/// A node reports to the owner of a lease that may linger that another client was refused it. A
/// quorum of nodes keeps the lease, and a quorum reports, so at least one node does both.
#[derive(Debug)]
pub(crate) struct RemoteRequests {
    reports: Arc<RequestReports>,
    /// The subscriptions. They are not in `reports`, because they keep it alive.
    subscriptions: OnceLock<Vec<Subscription>>,
    /// Number of leases from their first linger to their release. It does not change at each
    /// linger, because all threads would write it.
    lingering: AtomicUsize,
}

#[derive(Debug)]
struct RequestReports {
    leases: Arc<dyn LingeringLeases>,
    timers: Arc<Timers>,
    state: Mutex<RequestState>,
    /// Time since which a quorum of nodes reports, in ns; `u64::MAX` while fewer do.
    since: AtomicU64,
    /// Whether `names` has any names. Usually it has none.
    any: AtomicBool,
}

#[derive(Debug)]
struct RequestState {
    /// Time since which each node reports.
    nodes: Box<[Option<Timestamp>]>,
    /// The names for which other processes asked.
    names: HashMap<Arc<str>, RequestedName>,
    /// Number of names at which expired ones are removed next.
    sweep_at: usize,
}

#[derive(Clone, Copy, Debug)]
struct RequestedName {
    /// The latest request.
    at: Timestamp,
    /// The length and the end of the pause.
    pause: Duration,
    until: Timestamp,
}

impl RemoteRequests {
    pub(crate) fn new(
        leases: Arc<dyn LingeringLeases>,
        timers: &Arc<Timers>,
        nodes: usize,
    ) -> Self {
        let state = RequestState {
            nodes: vec![None; nodes].into(),
            names: HashMap::new(),
            sweep_at: FIRST_SWEEP,
        };
        let reports = Arc::new(RequestReports {
            leases,
            timers: Arc::clone(timers),
            state: Mutex::new(state),
            since: AtomicU64::new(u64::MAX),
            any: AtomicBool::new(false),
        });
        Self { reports, subscriptions: OnceLock::new(), lingering: AtomicUsize::new(0) }
    }

    /// Subscribes at the first call. Must not be called under a mutex of the crate.
    pub(crate) fn subscribe(&self, nodes: &[Arc<dyn Node>], owner: &str) {
        self.subscriptions.get_or_init(|| {
            let channel = owner_channel(owner);
            let subscribe = |(i, node): (usize, &Arc<dyn Node>)| {
                let reports = Arc::clone(&self.reports);
                node.subscribe(&channel, Hints::from_fn(move |hint| reports.hint(i, hint)))
            };
            nodes.iter().enumerate().map(subscribe).collect()
        });
    }

    /// Returns whether a quorum of nodes has reported since `start`.
    pub(crate) fn has_reports_since(&self, start: Timestamp) -> bool {
        self.reports.since.load(Ordering::Acquire) <= start.as_nanos()
    }

    /// Returns whether new leases of these names do not linger, because other processes asked for
    /// one recently.
    pub(crate) fn is_paused(&self, resource: &Resource, now: Timestamp) -> bool {
        self.reports.any_name(resource, |asked| now < asked.until)
    }

    /// Returns when another process last asked for one of these names, if it was not before `start`.
    pub(crate) fn asked_since(&self, resource: &Resource, start: Timestamp) -> Option<Timestamp> {
        let mut last = None;
        self.reports.any_name(resource, |asked| {
            last = last.max((asked.at >= start).then_some(asked.at));
            false
        });
        last
    }

    /// Counts a lease that is about to linger for the first time. Returns false if too many do.
    pub(crate) fn enter(&self) -> bool {
        let more = |lingering| (lingering < MAX_LINGERING).then_some(lingering + 1);
        self.lingering.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// Counts a lease that is released to the nodes.
    pub(crate) fn leave(&self) {
        self.lingering.fetch_sub(1, Ordering::AcqRel);
    }
}

impl RequestReports {
    fn state(&self) -> Guard<'_, RequestState> {
        crate::sync::lock(&self.state)
    }

    fn any_name(&self, resource: &Resource, is_wanted: impl FnMut(&RequestedName) -> bool) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let state = self.state();
        resource.shared_names().iter().filter_map(|name| state.names.get(name)).any(is_wanted)
    }

    fn asked(&self, name: &Arc<str>) {
        let now = self.timers.clock().now();
        {
            let mut state = self.state();
            state.note(name, now);
            self.any.store(true, Ordering::Release);
        }
        self.leases.asked(name, now);
    }
}

impl RequestReports {
    fn withdrawn(&self, name: &Arc<str>) {
        // A lease that is granted from now on was not asked for.
        if let Some(asked) = self.state().names.get_mut(name) {
            asked.at = Timestamp::ZERO;
        }
        self.leases.withdrawn(name);
    }
}

impl RequestState {
    fn note(&mut self, name: &Arc<str>, now: Timestamp) {
        if self.names.len() >= self.sweep_at {
            self.names.retain(|_, asked| now < asked.until + PAUSE_MEMORY);
            self.sweep_at = FIRST_SWEEP.max(2 * self.names.len());
        }
        let first = RequestedName { at: now, pause: FIRST_PAUSE, until: now + FIRST_PAUSE };
        let asked = self.names.entry(Arc::clone(name)).or_insert(first);
        asked.at = now;
        // Each node reports the same refusal.
        if now >= asked.until {
            let is_remembered = now < asked.until + PAUSE_MEMORY;
            let longer = (asked.pause * 2).min(LONGEST_PAUSE);
            asked.pause = if is_remembered { longer } else { FIRST_PAUSE };
            asked.until = now + asked.pause;
        }
    }
}

impl RequestReports {
    fn hint(&self, node: usize, hint: Hint) {
        let is_listening = match hint {
            Hint::Asked { name } => return self.asked(&name),
            Hint::Withdrawn { name } => return self.withdrawn(&name),
            Hint::Listening => true,
            Hint::Deaf => false,
            Hint::Freed { .. } => return,
        };
        let since = {
            let now = self.timers.clock().now();
            let mut state = self.state();
            let node = &mut state.nodes[node];
            *node = is_listening.then(|| node.unwrap_or(now));
            let quorum = formulas::quorum(state.nodes.len());
            let mut starts: Vec<_> =
                state.nodes.iter().flatten().map(|start| start.as_nanos()).collect();
            starts.sort_unstable();
            let since = starts.get(quorum - 1).copied().unwrap_or(u64::MAX);
            self.since.store(since, Ordering::Release);
            since
        };
        if since == u64::MAX {
            // Otherwise other processes would wait for the end of the lingers.
            self.leases.end_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> RequestState {
        RequestState { nodes: Box::default(), names: HashMap::new(), sweep_at: FIRST_SWEEP }
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn pause_doubles_if_asked_again() {
        let (mut state, name) = (state(), Arc::<str>::from("x"));
        let mut until = |millis| {
            state.note(&name, at(millis));
            state.names["x"].until
        };

        assert_eq!(until(0), at(1_000));
        assert_eq!(until(3), at(1_000), "by another node");
        assert_eq!(until(1_500), at(3_500));
        assert_eq!(until(60_000), at(64_000));
        assert_eq!(until(124_001), at(125_001), "forgotten");
    }

    #[test]
    fn names_of_the_past_are_removed() {
        let mut state = state();
        for second in 0..10_000 {
            state.note(&second.to_string().into(), at(second * 1_000));
        }
        assert!(state.names.len() <= 2 * 122, "{}", state.names.len());
    }
}

//! What the attempts and leases of one manager share: its nodes, clocks and settings.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use super::{
    attempts::AttemptLimiter,
    busy_names::BusyNames,
    counts::LockCounters,
    fences::Fences,
    hold_times::HoldTimes,
    inside::is_inside,
    obligations::{OwedEnds, Repeaters},
    options::LockOptions,
    quota::Quota,
    remote_requests::{LingeringLeases, RemoteRequests},
    settings::{InternalOptions, Plan, Settings},
    spawner::{Spawner, ThreadSpawner},
    wakeups::Wakeups,
};
use crate::{
    error::{LockError, Reason, Vote, VoteOutcome, Votes},
    events::{Events, LockEventKind},
    node::{ClockJumps, Node, NodeHealth, NodeState, redis::NodeSet},
    protocol::{Nonce, formulas},
    random,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Clock, Sleep, Timers, Timestamp},
};

/// Interval between the checks of a state that has no event of its own.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// What the attempts and leases of one manager share: its nodes, clocks and settings.
///
/// It does not depend on requests and leases, which use it.
pub(crate) struct Client {
    pub(crate) settings: Settings,
    /// The plan of requests without options of their own.
    default_plan: OnceLock<Arc<Plan>>,
    pub(crate) nodes: Box<[Arc<dyn Node>]>,
    names: Box<[Arc<str>]>,
    pub(crate) timers: Arc<Timers>,
    pub(crate) fences: Fences,
    pub(crate) busy_names: BusyNames,
    pub(crate) hold_times: HoldTimes,
    pub(crate) attempts: Arc<AttemptLimiter>,
    pub(crate) repeaters: Repeaters,
    pub(crate) owed: OwedEnds,
    pub(crate) wakeups: Arc<Wakeups>,
    pub(crate) remote_requests: RemoteRequests,
    pub(crate) clock_jumps: Arc<ClockJumps>,
    /// The servers among the nodes.
    pub(crate) set: Option<Arc<NodeSet>>,
    pub(crate) events: Arc<Events>,
    pub(super) counts: LockCounters,
    detached: Detached,
    pub(crate) quota: Arc<Quota>,
    #[cfg(feature = "http")]
    pub(crate) body_room: Arc<super::BodyRoom>,
    /// Number of releases that were sent and are not answered.
    pub(crate) releasing: AtomicUsize,
    closed: AtomicBool,
    /// Where all nodes are inside this process: a random number, and the number of nonces so far.
    own_nonces: (OnceLock<u128>, AtomicU64),
    /// Keeps the background thread alive.
    pub(crate) spawner: Arc<dyn Spawner>,
}

/// What a client is built of.
pub(super) struct ClientParts {
    pub(super) settings: Settings,
    pub(super) nodes: Vec<Arc<dyn Node>>,
    pub(super) set: Option<Arc<NodeSet>>,
    pub(super) timers: Arc<Timers>,
    pub(super) clock_jumps: Arc<ClockJumps>,
    pub(super) events: Arc<Events>,
    pub(super) spawner: Arc<dyn Spawner>,
}

/// Requests that continue although their callers have gone.
#[derive(Debug, Default)]
struct Detached {
    count: AtomicUsize,
    /// Time by which all of these requests have ended, in ns.
    until: AtomicU64,
}

impl Client {
    /// Sends an event to the subscribers. Must not be called under a mutex of the crate.
    pub(crate) fn send_event(&self, kind: impl FnOnce() -> LockEventKind) {
        self.events.send(self.clock(), kind);
    }

    pub(super) fn new(parts: ClientParts, lingering: Arc<dyn LingeringLeases>) -> Arc<Self> {
        let ClientParts { settings, nodes, set, timers, clock_jumps, events, spawner } = parts;
        let client = Arc::new(Self {
            remote_requests: RemoteRequests::new(lingering, &timers, nodes.len()),
            hold_times: HoldTimes::new(),
            busy_names: BusyNames::new(),
            attempts: AttemptLimiter::new(Arc::clone(&timers)),
            #[cfg(feature = "http")]
            body_room: super::BodyRoom::new(
                settings.bounds.waiting_body_bytes,
                Arc::clone(&timers),
            ),
            quota: Quota::new(settings.bounds.records, Arc::clone(&timers)),
            settings,
            default_plan: OnceLock::new(),
            events,
            counts: LockCounters::new(),
            names: nodes.iter().map(|node| node.name().into()).collect(),
            repeaters: Repeaters::new(&nodes, &timers),
            owed: OwedEnds::default(),
            wakeups: Wakeups::new(Arc::clone(&timers)),
            nodes: nodes.into(),
            fences: Fences::new(set.clone()),
            clock_jumps,
            set,
            timers,
            detached: Detached::default(),
            releasing: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            own_nonces: (OnceLock::new(), AtomicU64::new(0)),
            spawner,
        });
        run_timers(Arc::downgrade(&client), &client.timers, &*client.spawner);
        if !client.settings.defaults.linger.is_zero() {
            client.remote_requests.subscribe(&client.nodes, &client.settings.owner);
        }
        client
    }

    /// Returns the checked settings of a request. Requests without options of their own share them.
    pub(crate) fn plan(
        &self,
        options: &LockOptions,
        internal: &InternalOptions,
    ) -> Result<Arc<Plan>, LockError> {
        let plan = || self.settings.plan(options, internal).map(Arc::new);
        if *options != LockOptions::new() || *internal != InternalOptions::default() {
            return plan();
        }
        if let Some(known) = self.default_plan.get() {
            return Ok(Arc::clone(known));
        }
        let plan = plan()?;
        Ok(Arc::clone(self.default_plan.get_or_init(|| plan)))
    }

    /// Returns a nonce for a lease. Nodes inside this process meet leases of its managers only, so
    /// numbers that follow a random one are enough for them: random numbers of the system take 0.3 µs.
    pub(crate) fn nonce(&self) -> Result<Nonce, getrandom::Error> {
        if !self.settings.is_embedded {
            return random::nonce();
        }
        let (first, count) = &self.own_nonces;
        let first = if let Some(known) = first.get() {
            known
        } else {
            let mut drawn = [0; 16];
            random::fill(&mut drawn)?;
            first.get_or_init(|| u128::from_be_bytes(drawn))
        };
        let number = first.wrapping_add(count.fetch_add(1, Ordering::Relaxed).into());
        Ok(Nonce::from_bytes(number.to_be_bytes()))
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock().now()
    }

    pub(crate) fn sleep_until(&self, at: Timestamp) -> Sleep {
        self.timers.sleep_until(at)
    }

    pub(crate) fn node_timeout(&self) -> Duration {
        self.settings.node_timeout
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        self.timers.clock()
    }

    /// Returns the votes with the nodes' names, [explained](Self::explained).
    pub(crate) fn votes(&self, outcomes: Vec<VoteOutcome>) -> Votes {
        self.explained(&self.named(outcomes))
    }

    pub(crate) fn named(&self, outcomes: Vec<VoteOutcome>) -> Votes {
        let named = self.names.iter().zip(outcomes);
        Votes::new(named.map(|(name, outcome)| Vote::new(Arc::clone(name), outcome)))
            .in_set(self.settings.place)
    }

    /// Returns the votes with the state of nodes that were not awaited. Calls the nodes, so it must
    /// not be called under a mutex.
    pub(crate) fn explained(&self, votes: &Votes) -> Votes {
        crate::sync::assert_unlocked();
        let explained = |(vote, node): (&Vote, &Arc<dyn Node>)| {
            let mut vote = vote.clone();
            if vote.outcome == VoteOutcome::NotCounted(Reason::NotAwaited)
                && let Some(reason) = abstention_reason(&node.health().state)
            {
                vote.outcome = VoteOutcome::NotCounted(reason);
            }
            vote
        };
        Votes::new(votes.iter().zip(&self.nodes).map(explained)).in_set(self.settings.place)
    }

    /// Returns the wall clock for fencing tokens: the clock of a quorum of nodes, or the local
    /// clock if the nodes' clocks are unknown.
    pub(crate) fn nodes_wall(&self, now: Timestamp, wall: Duration) -> Duration {
        /// Maximum number of clocks that are compared without an allocation.
        const MAX_ON_STACK: usize = 9;
        let mut on_stack = [Duration::ZERO; MAX_ON_STACK];
        let mut on_heap = Vec::new();
        let known = if self.nodes.len() <= MAX_ON_STACK {
            &mut on_stack[..]
        } else {
            on_heap.resize(self.nodes.len(), Duration::ZERO);
            &mut on_heap
        };
        let mut count = 0;
        for wall in self.nodes.iter().filter_map(|node| node.wall(now, wall)) {
            known[count] = wall;
            count += 1;
        }
        let quorum = formulas::quorum(self.nodes.len());
        formulas::common_wall(&mut known[..count], quorum).unwrap_or(wall)
    }

    /// Returns the wall clock of a quorum of nodes that have clocks of their own; `None` while
    /// fewer are connected.
    #[cfg(feature = "scheduler")]
    pub(crate) fn common_wall(&self, now: Timestamp) -> Option<Duration> {
        let own = self.nodes.iter().filter(|node| node.has_own_wall());
        let mut known: Vec<Duration> =
            own.filter_map(|node| node.wall(now, Duration::ZERO)).collect();
        let quorum = formulas::quorum(self.nodes.len());
        if known.len() < quorum { None } else { formulas::common_wall(&mut known, quorum) }
    }

    pub(crate) fn node_name(&self, node: usize) -> &Arc<str> {
        &self.names[node]
    }

    pub(crate) fn health(&self) -> Vec<NodeHealth> {
        let health = |(i, node): (usize, &Arc<dyn Node>)| NodeHealth {
            unacknowledged: self.repeaters.unacknowledged(i),
            ..node.health()
        };
        self.nodes.iter().enumerate().map(health).collect()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Returns an error unless requests are accepted.
    pub(crate) fn check_open(&self) -> Result<(), LockError> {
        if self.is_closed() { Err(LockError::Closed) } else { Ok(()) }
    }

    /// Completes after `time`. Needs no runtime in the task that awaits it.
    pub(crate) fn sleep(&self, time: Duration) -> Sleep {
        self.timers.sleep_until(self.clock().now() + time)
    }

    /// Waits until nothing is owed to the nodes; at most for `max_ttl`, as the keys have expired then. Waits
    /// for records of ended work and ends of runs also while no node answers. What is left is given up, and
    /// reported.
    pub(crate) async fn drain(&self) {
        self.wait_until(|| self.owed.count() == 0 && self.is_released()).await;
        let releases = |node| self.unacknowledged_releases(node);
        let releases: Vec<_> = (0..self.nodes.len()).map(releases).collect();
        self.owed.give_up("the manager was shut down");
        for (node, releases) in self.names.iter().zip(releases) {
            if releases > 0 {
                crate::log::info!(
                    %node, releases,
                    "the manager is shut down before the node acknowledged these releases: its keys expire at \
                     the end of their TTL"
                );
            }
        }
    }

    /// Waits until all releases are answered, including those that are repeated to nodes that vote; at most
    /// for `max_ttl`.
    #[cfg(feature = "scheduler")]
    pub(crate) async fn released(&self) {
        self.wait_until(|| self.is_released()).await;
    }

    fn is_released(&self) -> bool {
        let is_repeated = |(i, node): (usize, &Arc<dyn Node>)| {
            self.unacknowledged_releases(i) > 0 && node.health().is_voting()
        };
        self.releasing.load(Ordering::Acquire) == 0
            && !self.nodes.iter().enumerate().any(is_repeated)
    }

    /// Returns the number of releases that the node has not acknowledged. Each end that is owed waits for it at
    /// most once.
    fn unacknowledged_releases(&self, node: usize) -> usize {
        self.repeaters.unacknowledged(node).saturating_sub(self.owed.count())
    }

    /// Waits for a state that has no event of its own, at most for `max_ttl`.
    async fn wait_until(&self, is_over: impl Fn() -> bool) {
        let limit = self.clock().now() + self.settings.max_ttl;
        while !is_over() && self.clock().now() < limit {
            self.sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits until no request without a caller is left, at most until the locks of all of them are
    /// over. A request without a caller waits for none of them: it would wait for itself.
    pub(crate) async fn detached_work_ended(self: &Arc<Self>) {
        loop {
            let count = self.detached.count.load(Ordering::Acquire);
            if count == 0 || is_inside(self) {
                return;
            }
            let until = Timestamp::from_nanos(self.detached.until.load(Ordering::Acquire));
            if self.clock().now() >= until {
                crate::log::warn!(
                    requests = count,
                    "shutdown does not wait for requests whose callers have gone and whose locks \
                     are over: they block their thread, or their runtime does not run"
                );
                return;
            }
            self.sleep(POLL_INTERVAL).await;
        }
    }
}

/// Returns the reason why a node in this state has no vote.
fn abstention_reason(state: &NodeState) -> Option<Reason> {
    match state {
        NodeState::Voting | NodeState::Connecting => None,
        NodeState::Probation { remaining, .. } => Some(Reason::Probation { remaining: *remaining }),
        NodeState::Refusing { reason, .. } | NodeState::Down { reason, .. } => Some(reason.clone()),
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("nodes", &self.names)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// Runs the timers. If the spawner drops them, they continue on a thread, so that every wait ends
/// in time.
fn run_timers(client: Weak<Client>, timers: &Arc<Timers>, spawner: &dyn Spawner) {
    let running = Arc::clone(timers).run();
    let end = spawner.may_drop_tasks().then(|| TimersEnd(client));
    spawner.spawn(Box::pin(async move {
        let _end = end;
        running.await;
    }));
}

struct TimersEnd(Weak<Client>);

impl Drop for TimersEnd {
    fn drop(&mut self) {
        let Some(client) = self.0.upgrade() else { return };
        match ThreadSpawner::start() {
            Ok(thread) => {
                if !client.is_closed() {
                    crate::log::warn!(
                        "the runtime of the manager's tasks has ended before the manager's shutdown: no node can be reached any more"
                    );
                }
                let (timers, thread) = (Arc::clone(&client.timers), Arc::new(thread));
                let alive = Arc::clone(&thread);
                thread.spawn(Box::pin(async move {
                    timers.run().await;
                    drop(alive);
                }));
            }
            Err(error) => {
                crate::log::error!(%error, "the runtime of the manager's tasks has ended, and there is no thread: requests hang");
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.timers.close();
        if let Some(set) = &self.set {
            set.close();
        }
    }
}

/// Counts a request whose caller has gone, until it is dropped.
/// [`Redlock::shutdown`](super::Redlock::shutdown) waits for it.
#[cfg(feature = "http")]
#[derive(Debug)]
pub(crate) struct DetachedWork(Arc<Client>);

#[cfg(feature = "http")]
impl DetachedWork {
    /// Counts work that has ended by `until` at the latest.
    pub(crate) fn begin(client: &Arc<Client>, until: Timestamp) -> Self {
        client.detached.until.fetch_max(until.as_nanos(), Ordering::AcqRel);
        client.detached.count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(client))
    }
}

#[cfg(feature = "http")]
impl Drop for DetachedWork {
    fn drop(&mut self) {
        self.0.detached.count.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use crate::{Redlock, node::EmbeddedNodes};

    #[test]
    fn nonces_over_the_same_nodes_differ() {
        let nodes = EmbeddedNodes::new(3);
        let manager = || Redlock::builder().nodes_from(&nodes).build().unwrap();
        let managers = [manager(), manager()];

        let drawn = |manager: &Redlock| manager.client().nonce().unwrap();
        let all: HashSet<_> = (0..200).map(|nth| drawn(&managers[nth % 2])).collect();

        assert_eq!(all.len(), 200);
    }
}

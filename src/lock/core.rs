use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::{
    attempts::Attempts, detached::Detached, fences::Fences, queue::Queue, quota::Quota,
    releaser::Releaser, settings::Settings, spawner::Spawner, usual::Usual, wakeups::Wakeups,
};
use crate::{
    error::{LockError, Reason, Vote, VoteOutcome, Votes},
    node::{ClockJumps, Node, NodeHealth, NodeState, redis::NodeSet},
    protocol::rules,
    time::{Clock, Sleep, Timers, Timestamp},
};

/// What all handles of one manager share.
pub(crate) struct Core {
    pub(crate) settings: Settings,
    pub(crate) nodes: Box<[Arc<dyn Node>]>,
    names: Box<[Arc<str>]>,
    pub(crate) timers: Arc<Timers>,
    pub(crate) fences: Fences,
    pub(crate) queue: Arc<Queue>,
    /// For how long locks are usually held.
    pub(crate) usual: Usual,
    pub(crate) attempts: Arc<Attempts>,
    pub(crate) releaser: Releaser,
    /// Who waits for names that other processes hold.
    pub(crate) wakeups: Arc<Wakeups>,
    pub(crate) clock_jumps: Arc<ClockJumps>,
    /// What the servers among the nodes have in common.
    pub(crate) set: Option<Arc<NodeSet>>,
    pub(crate) detached: Detached,
    /// How much of what this manager records the nodes may keep.
    pub(crate) quota: Arc<Quota>,
    /// For bodies that are read before their locks are asked for.
    #[cfg(feature = "http")]
    pub(crate) body_room: Arc<super::BodyRoom>,
    /// Releases that were sent and are not answered.
    pub(crate) releasing: AtomicUsize,
    closed: AtomicBool,
    /// The process that it was built in. A fork has a copy of everything but the thread that moves
    /// it, and of mutexes as they were, locked or not.
    pub(crate) process: u32,
    /// When it was last found to be in that process, in ns.
    at_home: AtomicU64,
    /// Keeps the thread that everything runs on.
    pub(crate) spawner: Arc<dyn Spawner>,
}

impl Core {
    pub(crate) fn new(
        settings: Settings,
        nodes: Vec<Arc<dyn Node>>,
        set: Option<Arc<NodeSet>>,
        (timers, clock_jumps): (Arc<Timers>, Arc<ClockJumps>),
        spawner: Arc<dyn Spawner>,
    ) -> Arc<Self> {
        spawner.spawn(Box::pin(Arc::clone(&timers).run()));
        Arc::new_cyclic(|core| Self {
            queue: Arc::new(Queue::new(
                Arc::clone(&settings.owner),
                Arc::clone(&timers),
                settings.line,
            )),
            usual: Usual::new(),
            attempts: Attempts::new(Arc::clone(&timers)),
            #[cfg(feature = "http")]
            body_room: super::BodyRoom::new(settings.waiting_body_bytes, Arc::clone(&timers)),
            quota: Quota::new(settings.records, Arc::clone(&timers)),
            settings,
            names: nodes.iter().map(|node| node.name().into()).collect(),
            releaser: Releaser::new(nodes.len(), core),
            wakeups: Wakeups::new(Arc::clone(&timers)),
            nodes: nodes.into(),
            fences: Fences::new(set.clone()),
            clock_jumps,
            set,
            timers,
            detached: Detached::default(),
            releasing: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            process: std::process::id(),
            at_home: AtomicU64::new(0),
            spawner,
        })
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        self.timers.clock()
    }

    /// Names the nodes to the outcomes of their votes. Of a node that was not awaited, what is
    /// known of it says more than that. Asks the nodes, so not to be called under a mutex.
    pub(crate) fn votes(&self, outcomes: Vec<VoteOutcome>) -> Votes {
        self.explained(&self.named(outcomes))
    }

    /// Names the nodes to the outcomes of their votes.
    pub(crate) fn named(&self, outcomes: Vec<VoteOutcome>) -> Votes {
        let named = self.names.iter().zip(outcomes);
        Votes::new(named.map(|(name, outcome)| Vote::new(Arc::clone(name), outcome)))
    }

    /// The same votes, with what is known of nodes that were not awaited.
    pub(crate) fn explained(&self, votes: &Votes) -> Votes {
        crate::sync::assert_unlocked();
        let explained = |(vote, node): (&Vote, &Arc<dyn Node>)| {
            let mut vote = vote.clone();
            if vote.outcome == VoteOutcome::NotCounted(Reason::NotAwaited)
                && let Some(reason) = why_not(&node.health().state)
            {
                vote.outcome = VoteOutcome::NotCounted(reason);
            }
            vote
        };
        Votes::new(votes.iter().zip(&self.nodes).map(explained))
    }

    /// The wall clock that fencing tokens are made of: that of a quorum of nodes, or ours where
    /// theirs are not known.
    pub(crate) fn nodes_wall(&self, now: Timestamp, wall: Duration) -> Duration {
        /// The most clocks that are compared without an allocation.
        const FEW: usize = 9;
        let mut few = [Duration::ZERO; FEW];
        let mut many = Vec::new();
        let known = if self.nodes.len() <= FEW {
            &mut few[..]
        } else {
            many.resize(self.nodes.len(), Duration::ZERO);
            &mut many
        };
        let mut count = 0;
        for wall in self.nodes.iter().filter_map(|node| node.wall(now, wall)) {
            known[count] = wall;
            count += 1;
        }
        let quorum = rules::quorum(self.nodes.len());
        rules::common_wall(&mut known[..count], quorum).unwrap_or(wall)
    }

    /// The wall clock that a quorum of nodes agrees on, by clocks of their own; nothing while fewer
    /// are connected.
    #[cfg(feature = "scheduler")]
    pub(crate) fn common_wall(&self, now: Timestamp) -> Option<Duration> {
        let own = self.nodes.iter().filter(|node| node.has_own_wall());
        let mut known: Vec<Duration> =
            own.filter_map(|node| node.wall(now, Duration::ZERO)).collect();
        let quorum = rules::quorum(self.nodes.len());
        if known.len() < quorum { None } else { rules::common_wall(&mut known, quorum) }
    }

    pub(crate) fn node_name(&self, node: usize) -> &Arc<str> {
        &self.names[node]
    }

    pub(crate) fn health(&self) -> Vec<NodeHealth> {
        if self.is_forked() {
            let state = || NodeState::Down { reason: self.not_in_fork(), since: Duration::ZERO };
            let down = |name| NodeHealth { state: state(), ..NodeHealth::voting(name) };
            return self.names.iter().map(|name| down(name)).collect();
        }
        let health = |(i, node): (usize, &Arc<dyn Node>)| NodeHealth {
            pending_releases: self.releaser.pending(i),
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

    /// Whether this process is a fork of the one that it was built in.
    pub(crate) fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }

    /// The same for the hot path: asks the system, which takes 0.3 µs, once in [`FORK_TIME`] only.
    pub(crate) fn is_forked_at(&self, now: Timestamp) -> bool {
        let now = now.as_nanos();
        if now.wrapping_sub(self.at_home.load(Ordering::Relaxed)) < FORK_TIME {
            return false;
        }
        let is_forked = self.is_forked();
        if !is_forked {
            self.at_home.store(now, Ordering::Relaxed);
        }
        is_forked
    }

    /// Whether requests are taken.
    pub(crate) fn is_open_at(&self, now: Timestamp) -> Result<(), LockError> {
        if self.is_forked_at(now) {
            return Err(LockError::Forked { built_in: self.process });
        }
        if self.is_closed() { Err(LockError::Closed) } else { Ok(()) }
    }

    /// What a fork has for votes.
    pub(crate) fn votes_in_fork(&self) -> Votes {
        let outcome = VoteOutcome::NotCounted(self.not_in_fork());
        self.votes(vec![outcome; self.names.len()])
    }

    /// What a fork is told of each node.
    pub(crate) fn not_in_fork(&self) -> Reason {
        let error = LockError::Forked { built_in: self.process };
        Reason::NotConnected(error.to_string().into())
    }

    pub(crate) async fn pause(&self, pause: Duration) {
        self.sleep(pause).await;
    }

    /// Completes after a time. Needs no runtime in the task that awaits it.
    pub(crate) fn sleep(&self, time: Duration) -> Sleep {
        self.timers.sleep_until(self.clock().now() + time)
    }

    /// Waits until every release is answered, those that are repeated to reachable nodes included.
    pub(crate) async fn drain(&self) {
        if self.is_forked() {
            return;
        }
        // After a TTL the keys are gone in any case.
        let limit = self.clock().now() + self.settings.max_ttl;
        while self.clock().now() < limit {
            let repeating = self
                .nodes
                .iter()
                .enumerate()
                .any(|(i, node)| self.releaser.pending(i) > 0 && node.health().is_voting());
            if self.releasing.load(Ordering::Acquire) == 0 && !repeating {
                return;
            }
            self.pause(POLL_INTERVAL).await;
        }
    }
}

/// Why a node in this state has no vote.
fn why_not(state: &NodeState) -> Option<Reason> {
    match state {
        NodeState::Voting | NodeState::Connecting => None,
        NodeState::Probation { remaining, .. } => Some(Reason::Probation { remaining: *remaining }),
        NodeState::Refusing { reason, .. } | NodeState::Down { reason, .. } => Some(reason.clone()),
    }
}

/// Time within which no process forks, in ns: less than a fork takes.
const FORK_TIME: u64 = 20_000;

/// How often states that have no event of their own are looked at.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(5);

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("nodes", &self.names)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if self.is_forked() {
            // Their drops may wait for a mutex that was locked at the fork.
            return std::mem::forget(std::mem::take(&mut self.nodes));
        }
        self.timers.close();
        if let Some(set) = &self.set {
            set.close();
        }
    }
}

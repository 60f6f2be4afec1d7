//! The nodes of one set: which of them may vote, and why the others may not. The list of a manager's sets.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use ::redis::{Pipeline, Value};
use tokio::sync::{mpsc, oneshot};

use super::{
    Layout, NodeReport, Tag,
    next_change::{EnrolTerms, Joining},
    state::{ClockCorrections, SetState, WallClockFlags},
};
use crate::{
    error::Reason,
    membership::node_status::NodeStatus,
    node::{
        ClockJumps,
        redis::{
            Endpoint, EvictionGuard, RedisSettings, RestartGuard,
            encode::Keys,
            server_traits::ServerTraits,
            status::Status,
            status_detail::{VoteObstacle, VoteObstacleKind},
        },
    },
    protocol::views::{Incarnation, View},
    sync::{
        Guard, Mutex, Notify, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{AdjustedClock, Clock, Timestamp},
};

/// Returns the tag of a node in its latest report.
fn latest_tag(state: &SetState, node: usize) -> Tag {
    state.reports[node].as_ref().map_or_else(|| Tag::new(""), |report| report.tag.clone())
}

/// Interval between lookups of the name of a displaced node.
const LOOKUP_INTERVAL: Duration = Duration::from_secs(2);

/// The nodes of one manager.
#[derive(Debug)]
pub(crate) struct NodeSet {
    pub(crate) layout: Layout,
    pub(crate) keys: Keys,
    pub(crate) settings: RedisSettings,
    pub(super) clock: Arc<AdjustedClock>,
    pub(super) clock_jumps: Arc<ClockJumps>,
    members: OnceLock<Box<[NodeHandle]>>,
    state: Mutex<SetState>,
    pub(super) changed: Notify,
    /// The highest floor of any node; no token may be proposed below it.
    floor: AtomicU64,
    pub(super) corrections: ClockCorrections,
    pub(super) off: WallClockFlags,
    pub(super) closed: AtomicBool,
    /// The list that the set is in, if there are several sets.
    pub(super) list: OnceLock<Arc<SetList>>,
    /// Whether a quorum was connected once.
    pub(super) was_known: AtomicBool,
    /// The result of the latest handshake with each server.
    traits: Box<[Mutex<ServerTraits>]>,
    /// Index of the set's first node among the manager's nodes.
    pub(super) first: usize,
}

/// One node of the set.
#[derive(Debug)]
pub(crate) struct NodeHandle {
    pub(crate) status: Arc<Status>,
    pub(crate) admin: mpsc::UnboundedSender<AdminRequest>,
    pub(crate) endpoint: Endpoint,
}

/// A node's place in its set.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    pub(crate) set: Arc<NodeSet>,
    pub(crate) index: usize,
}

/// An administrative request to a node's connection.
#[derive(Debug)]
pub(crate) enum AdminRequest {
    /// Run commands; the replies go to the sender.
    Run(Pipeline, oneshot::Sender<Result<Vec<Value>, Reason>>),
    /// Run a health check now.
    Check,
}

/// The consequences of a report for a connection.
pub(crate) struct SetAdmission {
    /// The tag of its votes for this client; `None` if it does not vote.
    pub(crate) tag: Option<Tag>,
    /// The view that the tag stands for; `None` without the restart guard.
    pub(crate) view: Option<Arc<View>>,
    /// Whether another server owns the node's name, so that the name must be resolved again.
    pub(crate) reconnect: bool,
}

impl NodeSet {
    pub(crate) fn new(
        layout: Layout,
        settings: RedisSettings,
        clock: Arc<AdjustedClock>,
        clock_jumps: Arc<ClockJumps>,
        first: usize,
        nodes: usize,
    ) -> Arc<Self> {
        let state = SetState::new(nodes, &settings);
        Arc::new(Self {
            layout,
            keys: Keys::new(&settings.prefix),
            settings,
            clock,
            clock_jumps,
            members: OnceLock::new(),
            state: Mutex::new(state),
            changed: Notify::new(),
            floor: AtomicU64::new(0),
            corrections: ClockCorrections::new(nodes),
            off: WallClockFlags::new(nodes),
            closed: AtomicBool::new(false),
            list: OnceLock::new(),
            was_known: AtomicBool::new(false),
            traits: (0..nodes).map(|_| Mutex::default()).collect(),
            first,
        })
    }

    /// Sets the members, once, before any of them connects.
    pub(crate) fn join(&self, members: impl Into<Box<[NodeHandle]>>) {
        let is_first = self.members.set(members.into()).is_ok();
        assert!(is_first && self.len() == self.traits.len(), "all members join, once");
    }

    /// Makes it a set of a list, before any of its members connects.
    pub(crate) fn join_list(self: &Arc<Self>, list: &Arc<SetList>) {
        let is_first = self.list.set(Arc::clone(list)).is_ok();
        assert!(is_first, "a set is in one list");
        list.add(self);
    }

    /// Returns the highest floor that a node reported.
    pub(crate) fn floor(&self) -> u64 {
        self.floor.load(Ordering::Relaxed)
    }

    pub(crate) fn len(&self) -> usize {
        self.members().len()
    }

    pub(super) fn is_unguarded(&self) -> bool {
        self.settings.guards.restart == RestartGuard::Off
    }

    pub(crate) fn traits(&self, node: usize) -> ServerTraits {
        crate::sync::lock(&self.traits[node]).clone()
    }

    pub(crate) fn set_traits(&self, node: usize, traits: ServerTraits) {
        *crate::sync::lock(&self.traits[node]) = traits;
    }

    /// Returns the state that a change of a node's record depends on, besides the record.
    /// `is_fresh` is true if the connection was opened after a new lookup of the name.
    pub(crate) fn terms(&self, node: usize, is_fresh: bool) -> EnrolTerms<'_> {
        let others = self.others(node);
        let now = self.clock.now();
        let may_join = self.may_take_servers();
        let state = self.state();
        let enrolment = &state.enrolment;
        let is_guarded = !self.is_unguarded();
        EnrolTerms {
            layout: &self.layout,
            restart: self.settings.guards.restart,
            max_ttl: self.settings.max_ttl,
            may_raise: !is_guarded || enrolment.is_quorate(),
            // A node that was last seen in another set still belongs to that set.
            least_epoch: (!is_guarded || !enrolment.is_elsewhere(node))
                .then(|| enrolment.least_epoch(node)),
            reclaims: enrolment.reclaims(node, now).filter(|_| is_fresh),
            lacks_owners: is_guarded && enrolment.lacks_owners(node),
            owners: others
                .iter()
                .map(|&other| enrolment.owner(other).filter(|_| is_guarded))
                .collect(),
            others: others.iter().map(|&other| &**self.members()[other].status.name()).collect(),
            unused: enrolment.unused_set(node, now).filter(|_| is_guarded && may_join).cloned(),
            joining: if may_join { Joining::Allowed } else { Joining::Waits },
            may_start: enrolment.may_start(node),
            latest_tag: latest_tag(&state, node),
            nonce: crate::random::number(),
        }
    }

    /// Returns the tag of a node in its latest report.
    pub(crate) fn latest_tag(&self, node: usize) -> Tag {
        latest_tag(&self.state(), node)
    }

    /// Returns the other nodes, sorted by name.
    pub(super) fn others(&self, node: usize) -> Vec<usize> {
        let mut others: Vec<_> = (0..self.members().len()).filter(|&other| other != node).collect();
        others.sort_unstable_by_key(|&other| self.members()[other].status.name());
        others
    }

    /// Returns the names of the other nodes, sorted.
    pub(crate) fn other_names(&self, node: usize) -> Vec<&str> {
        let name = |other: usize| &**self.members()[other].status.name();
        self.others(node).into_iter().map(name).collect()
    }

    /// Returns the view of a node of this layout.
    fn view(&self, node: usize, report: &NodeReport) -> Option<Arc<View>> {
        let unguarded = Incarnation { epoch: 0, id: 0, nonce: 0 };
        let own = if self.is_unguarded() { unguarded } else { report.tag.incarnation()? };
        let mut view = vec![None; self.members().len()];
        view[node] = Some(own);
        for (other, owner) in self.others(node).into_iter().zip(&report.owners) {
            view[other] = *owner;
        }
        Some(view.into())
    }

    /// Records a node's report, and decides whether it may vote.
    pub(crate) fn report(
        &self,
        node: usize,
        report: &NodeReport,
        asked: Timestamp,
        now: Timestamp,
        is_fresh: bool,
    ) -> SetAdmission {
        if report.tag.is_active() && report.tag.layout() == &*self.layout.hash {
            self.floor.fetch_max(report.floor, Ordering::Relaxed);
        }
        if report.copying && report.tag.is_active() {
            // Set before the node's votes count, so that no client sees it vote without seeing that
            // it copies.
            self.members()[node].status.set_copying(true);
        }
        let mut state = self.state();
        state.run_ids[node] = Some(Arc::clone(&report.run_id));
        state.reports[node] = Some(report.clone());
        let (status_seen, obstacle) = self.judge(node, report, state.enrolment.is_elsewhere(node));
        let view = match &status_seen {
            NodeStatus::Active { view } => Some(Arc::clone(view)),
            _ => None,
        };
        let status_seen =
            if self.bar_duplicates(&state, node) { NodeStatus::Out } else { status_seen };
        state.enrolment.see_answer(node, status_seen.clone(), asked, now);
        state.see_other_set(node, report, &status_seen, now);
        let status = &self.members()[node].status;
        let obstacle = obstacle.or_else(|| match &status_seen {
            NodeStatus::Probation { .. } => {
                Some(VoteObstacle::Probation { until: now + state.enrolment.remaining(node, now) })
            }
            // The limit is raised by the next health check, once a quorum votes.
            NodeStatus::Active { .. } if state.enrolment.displaced_since(node).is_some() => {
                Some(VoteObstacle::Reason(Reason::Displaced))
            }
            NodeStatus::Active { .. } if report.max_ttl < self.settings.max_ttl => {
                Some(VoteObstacle::Reason(Reason::TtlTooLong))
            }
            _ => None,
        });
        let raise = matches!(obstacle, Some(VoteObstacle::Reason(Reason::TtlTooLong)));
        status.queue_obstacle(VoteObstacleKind::Enrolment, obstacle);
        status.queue_obstacle(VoteObstacleKind::Eviction, self.eviction(report));
        state.tags[node] = view.as_ref().map(|_| report.tag.clone());
        let wanted = report.copying && view.is_some();
        let reconnect = Self::needs_lookup(&mut state, node, now, is_fresh);
        if !state.enrolment.lacks_owners(node) {
            status.queue_obstacle(VoteObstacleKind::Names, None);
        }
        state.enrolment.see_copying(node, wanted, now);
        let raise = raise && (self.is_unguarded() || state.enrolment.is_quorate());
        drop(state);
        status.set_copying(wanted);
        self.emit();
        if raise {
            for member in self.members() {
                if member.status.barred() == Some(Reason::TtlTooLong) {
                    let _ = member.admin.send(AdminRequest::Check);
                }
            }
        }
        self.note_quorum();
        self.changed.notify_one();
        let tag = view.as_ref().map(|_| report.tag.clone());
        let is_ours = |tag: &Tag| tag.is_active() && tag.layout() == &*self.layout.hash;
        assert!(tag.as_ref().is_none_or(is_ours), "votes are for this layout only: {tag:?}");
        SetAdmission { tag, view: view.filter(|_| !self.is_unguarded()), reconnect }
    }

    /// Returns whether a node votes, and its latest known tag is this one.
    pub(super) fn votes_with(&self, node: usize, tag: &Tag) -> bool {
        tag.is_active() && self.state().tags[node].as_ref() == Some(tag)
    }

    /// Returns whether a displaced node's name should be resolved again.
    fn needs_lookup(state: &mut SetState, node: usize, now: Timestamp, is_fresh: bool) -> bool {
        let Some(reclaimed_at) = state.enrolment.reclaimed_at(node) else {
            state.lookups[node] = Timestamp::ZERO;
            return false;
        };
        if !is_fresh {
            return now >= state.lookups[node];
        }
        let next = now + LOOKUP_INTERVAL;
        state.lookups[node] = if now < reclaimed_at { next.min(reclaimed_at) } else { next };
        false
    }

    /// Records the end of a node's connection.
    pub(crate) fn left(&self, node: usize) {
        let now = self.clock.now();
        let mut state = self.state();
        state.enrolment.see(node, NodeStatus::Out, now);
        // A server that was shared with this node now belongs to the other node alone.
        let mut alone = Vec::new();
        if let Some(run_id) = state.run_ids[node].take() {
            self.bar_duplicates(&state, node);
            let shares = |other: &usize| state.run_ids[*other].as_ref() == Some(&run_id);
            alone.extend((0..state.run_ids.len()).filter(shares));
        }
        drop(state);
        self.emit();
        for node in alone {
            let _ = self.members()[node].admin.send(AdminRequest::Check);
        }
        self.decide_jumps();
    }

    /// Emits the members' events; no mutex may be held.
    fn emit(&self) {
        self.members().iter().for_each(|member| member.status.emit());
    }

    fn judge(
        &self,
        node: usize,
        report: &NodeReport,
        is_elsewhere: bool,
    ) -> (NodeStatus, Option<VoteObstacle>) {
        let ours = report.tag.layout() == &*self.layout.hash;
        let current = report.tag.run() == &*report.run;
        let view = self.view(node, report).filter(|_| ours);
        if let Some(view) = view.clone().filter(|_| current && report.tag.is_active()) {
            (NodeStatus::Active { view }, None)
        } else if let Some(view) = view.filter(|_| report.tag.is_probation()) {
            let tag = Arc::clone(report.tag.text());
            let moved = report.tag.is_moved();
            let (max_ttl, is_new) = (report.longest_ttl(), report.never_voted());
            (NodeStatus::Probation { tag, view, max_ttl, moved, is_new }, None)
        } else if report.tag.text().is_empty() && is_elsewhere {
            let found = "no set: its data was lost, and before that it belonged to another set; adopt it, or restart this process once no client uses that set";
            let ours = Arc::clone(&self.layout.description);
            (
                NodeStatus::Out,
                Some(VoteObstacle::Reason(Reason::OtherLayout { found: found.into(), ours })),
            )
        } else if ours || report.tag.text().is_empty() {
            let found = Arc::clone(report.tag.text());
            (NodeStatus::Out, Some(VoteObstacle::Reason(Reason::WrongTag { found })))
        } else {
            let reason = Reason::OtherLayout {
                found: Arc::clone(&report.layout),
                ours: Arc::clone(&self.layout.description),
            };
            (NodeStatus::OtherLayout, Some(VoteObstacle::Reason(reason)))
        }
    }

    /// R7: refuses nodes that share a server, which would vote twice. Returns whether `asked` is one
    /// of them. The caller [emits](Self::emit).
    fn bar_duplicates(&self, state: &SetState, asked: usize) -> bool {
        let mut barred = false;
        for (node, member) in self.members().iter().enumerate() {
            let same = |other: &usize| {
                // An empty run id is unknown.
                *other != node
                    && state.run_ids[node].as_ref().is_some_and(|run_id| !run_id.is_empty())
                    && state.run_ids[*other] == state.run_ids[node]
            };
            let other = (0..state.run_ids.len()).find(same);
            let obstacle = other.map(|other| {
                let other = Arc::clone(self.members()[other].status.name());
                VoteObstacle::Reason(Reason::SameServer { other })
            });
            barred |= node == asked && obstacle.is_some();
            member.status.queue_obstacle(VoteObstacleKind::SameServer, obstacle);
        }
        barred
    }

    fn eviction(&self, report: &NodeReport) -> Option<VoteObstacle> {
        let memory = report.memory.as_ref().filter(|memory| memory.evicts())?;
        (self.settings.guards.eviction == EvictionGuard::Refuse)
            .then(|| VoteObstacle::Reason(Reason::Evicts { policy: Arc::clone(&memory.policy) }))
    }

    /// Returns whether all connected nodes vote.
    pub(crate) fn all_vote(&self) -> bool {
        self.members().iter().all(|member| !member.status.lacks_vote())
    }

    pub(super) fn members(&self) -> &[NodeHandle] {
        self.members.get().map_or(&[], |members| members)
    }

    pub(super) fn state(&self) -> Guard<'_, SetState> {
        crate::sync::lock(&self.state)
    }
}

/// The sets of one manager.
#[derive(Debug)]
pub(crate) struct SetList {
    sets: Mutex<Vec<Weak<NodeSet>>>,
    count: usize,
}

impl SetList {
    pub(crate) fn new(count: usize) -> Self {
        Self { sets: Mutex::new(Vec::new()), count }
    }

    fn add(&self, set: &Arc<NodeSet>) {
        crate::sync::lock(&self.sets).push(Arc::downgrade(set));
    }

    /// Returns the sets besides this one; `None` before all are there.
    pub(super) fn besides(&self, set: &NodeSet) -> Option<Vec<Arc<NodeSet>>> {
        let sets = crate::sync::lock(&self.sets);
        (sets.len() == self.count).then(|| {
            let others = sets.iter().filter_map(Weak::upgrade);
            others.filter(|other| !std::ptr::eq(Arc::as_ptr(other), set)).collect()
        })
    }
}

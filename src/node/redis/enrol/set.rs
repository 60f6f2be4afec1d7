use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use ::redis::{Pipeline, Value};
use tokio::sync::{Notify, mpsc, oneshot};

use super::{Layout, Standing};
use crate::{
    error::Reason,
    lock::Soundness,
    node::redis::{
        RedisSettings,
        encode::Keys,
        guards::{EvictionGuard, RestartGuard},
        status::{Bar, BarKind, Status},
    },
    quorum::{
        enrol::{Enrolment, Sight},
        offsets::Jury,
    },
    time::{AdjustedClock, Clock, Timestamp},
};

/// What the nodes of one manager have in common: which of them may vote, and why not.
#[derive(Debug)]
pub(crate) struct NodeSet {
    pub(in crate::node::redis) layout: Layout,
    pub(in crate::node::redis) keys: Keys,
    pub(in crate::node::redis) settings: RedisSettings,
    pub(super) clock: Arc<AdjustedClock>,
    pub(super) soundness: Arc<Soundness>,
    members: OnceLock<Box<[Member]>>,
    state: Mutex<State>,
    pub(super) changed: Notify,
    /// The highest floor that a node told: no token may be proposed below it.
    floor: AtomicU64,
    /// How often our own clock was put forward instead of what a node was accused of.
    pub(super) corrections: Box<[AtomicU64]>,
    /// By how much, in µs, that may have been too much, all in all.
    pub(super) overestimate: AtomicU64,
    pub(super) closed: AtomicBool,
    /// Where the set stands among the manager's nodes.
    pub(super) first: usize,
}

/// One node of the set.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) status: Arc<Status>,
    pub(super) admin: mpsc::UnboundedSender<Admin>,
}

/// What a node is asked for beside operations.
#[derive(Debug)]
pub(in crate::node::redis) enum Admin {
    /// Commands, and who waits for their answers.
    Run(Pipeline, oneshot::Sender<Result<Vec<Value>, Reason>>),
    /// To look how the node stands now, not at the next second.
    Check,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) enrolment: Enrolment,
    pub(super) jury: Jury,
    run_ids: Box<[Option<Arc<str>>]>,
    /// Which nodes still take over records.
    pub(super) copying: Box<[Copying]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copying {
    Done,
    Wanted(Timestamp),
    UnderWay,
}

impl NodeSet {
    pub(crate) fn new(
        layout: Layout,
        settings: RedisSettings,
        clock: Arc<AdjustedClock>,
        soundness: Arc<Soundness>,
        (first, nodes): (usize, usize),
    ) -> Arc<Self> {
        let state = State {
            enrolment: Enrolment::new(nodes, settings.max_ttl, settings.drift_factor),
            jury: Jury::new(nodes, settings.drift_factor),
            run_ids: vec![None; nodes].into(),
            copying: vec![Copying::Done; nodes].into(),
        };
        Arc::new(Self {
            layout,
            keys: Keys::new(&settings.prefix),
            settings,
            clock,
            soundness,
            members: OnceLock::new(),
            state: Mutex::new(state),
            changed: Notify::new(),
            floor: AtomicU64::new(0),
            corrections: (0..nodes).map(|_| AtomicU64::new(0)).collect(),
            overestimate: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            first,
        })
    }

    /// Names the members, once, before any of them connects.
    pub(in crate::node::redis) fn join(
        &self,
        members: impl IntoIterator<Item = (Arc<Status>, mpsc::UnboundedSender<Admin>)>,
    ) {
        let member = |(status, admin)| Member { status, admin };
        let _ = self.members.set(members.into_iter().map(member).collect());
    }

    /// The highest floor that a node told.
    pub(crate) fn floor(&self) -> u64 {
        self.floor.load(Ordering::Relaxed)
    }

    pub(in crate::node::redis) fn corrections(&self, node: usize) -> u64 {
        self.corrections[node].load(Ordering::Acquire)
    }

    /// By how much our clock may have been put forward too much, all in all.
    pub(in crate::node::redis) fn overestimate(&self) -> Duration {
        Duration::from_micros(self.overestimate.load(Ordering::Acquire))
    }

    pub(crate) fn len(&self) -> usize {
        self.members().len()
    }

    pub(super) fn is_unguarded(&self) -> bool {
        self.settings.guards.restart == RestartGuard::Off
    }

    /// Whether `max_ttl` may be raised on a node: a quorum votes.
    pub(in crate::node::redis) fn may_raise(&self) -> bool {
        if self.is_unguarded() {
            return true;
        }
        let state = self.state();
        state.enrolment.active() >= crate::quorum::rules::quorum(state.run_ids.len())
    }

    /// Whether a node without a tag of ours may be enrolled.
    pub(in crate::node::redis) fn may_enrol(&self, node: usize) -> bool {
        self.is_unguarded() || !self.state().enrolment.is_elsewhere(node)
    }

    /// Takes how a node stands, and decides whether it may vote.
    pub(in crate::node::redis) fn report(&self, node: usize, standing: &Standing, now: Timestamp) {
        if standing.tag.is_active() && standing.tag.layout() == &*self.layout.hash {
            self.floor.fetch_max(standing.floor, Ordering::Relaxed);
        }
        let mut state = self.state();
        state.run_ids[node] = Some(Arc::clone(&standing.run_id));
        let (sight, bar) = self.judge(standing, state.enrolment.is_elsewhere(node));
        let sight = if self.bar_duplicates(&state, node) { Sight::Out } else { sight };
        state.enrolment.see(node, sight.clone(), now);
        let status = &self.members()[node].status;
        let bar = bar.or_else(|| match &sight {
            Sight::Probation { .. } => {
                Some(Bar::Probation { until: now + state.enrolment.remaining(node, now) })
            }
            // Raised with the next look, once a quorum votes.
            Sight::Active if standing.max_ttl < self.settings.max_ttl => {
                Some(Bar::Reason(Reason::TtlTooLong))
            }
            _ => None,
        });
        let raise = matches!(bar, Some(Bar::Reason(Reason::TtlTooLong)));
        status.set_bar(BarKind::Enrolment, bar);
        status.set_bar(BarKind::Eviction, self.eviction(standing));
        let wanted = standing.copying && sight == Sight::Active;
        match state.copying[node] {
            Copying::Done if wanted => state.copying[node] = Copying::Wanted(now),
            Copying::Wanted(_) if !wanted => state.copying[node] = Copying::Done,
            _ => {}
        }
        drop(state);
        if raise && self.may_raise() {
            for member in self.members() {
                if member.status.barred() == Some(Reason::TtlTooLong) {
                    let _ = member.admin.send(Admin::Check);
                }
            }
        }
        self.changed.notify_one();
    }

    /// A node's connection is over.
    pub(in crate::node::redis) fn left(&self, node: usize) {
        let now = self.clock.now();
        let mut state = self.state();
        state.enrolment.see(node, Sight::Out, now);
        // A server that it shared with another node is that one's alone now.
        if let Some(run_id) = state.run_ids[node].take() {
            self.bar_duplicates(&state, node);
            for (other, member) in self.members().iter().enumerate() {
                if state.run_ids[other].as_ref() == Some(&run_id) {
                    let _ = member.admin.send(Admin::Check);
                }
            }
        }
    }

    fn judge(&self, standing: &Standing, is_elsewhere: bool) -> (Sight, Option<Bar>) {
        let ours = standing.tag.layout() == &*self.layout.hash;
        let current = standing.tag.incarnation() == &*standing.incarnation;
        if ours && current && standing.tag.is_active() {
            (Sight::Active, None)
        } else if ours && standing.tag.is_probation() {
            let tag = Arc::clone(standing.tag.text());
            let moved = standing.tag.is_moved();
            (Sight::Probation { tag, max_ttl: standing.max_ttl, moved }, None)
        } else if standing.tag.text().is_empty() && is_elsewhere {
            let found = "nothing: it belonged to another set when it was last seen, and has lost its data since; adopt it, or start this process again once no client uses that set";
            let ours = Arc::clone(&self.layout.description);
            (Sight::Out, Some(Bar::Reason(Reason::OtherLayout { found: found.into(), ours })))
        } else if ours || standing.tag.text().is_empty() {
            let found = Arc::clone(standing.tag.text());
            (Sight::Out, Some(Bar::Reason(Reason::WrongTag { found })))
        } else {
            let reason = Reason::OtherLayout {
                found: Arc::clone(&standing.layout),
                ours: Arc::clone(&self.layout.description),
            };
            (Sight::OtherLayout, Some(Bar::Reason(reason)))
        }
    }

    /// R7: one server under two names would vote twice; so neither votes. Tells whether `asked` is
    /// one of them.
    fn bar_duplicates(&self, state: &State, asked: usize) -> bool {
        let mut barred = false;
        for (node, member) in self.members().iter().enumerate() {
            let same = |other: &usize| {
                *other != node
                    && state.run_ids[node].is_some()
                    && state.run_ids[*other] == state.run_ids[node]
            };
            let other = (0..state.run_ids.len()).find(same);
            let bar = other.map(|other| {
                let other = Arc::clone(self.members()[other].status.name());
                Bar::Reason(Reason::SameServer { other })
            });
            barred |= node == asked && bar.is_some();
            member.status.set_bar(BarKind::SameServer, bar);
        }
        barred
    }

    fn eviction(&self, standing: &Standing) -> Option<Bar> {
        let memory = standing.memory.as_ref().filter(|memory| memory.evicts())?;
        (self.settings.guards.eviction == EvictionGuard::Refuse)
            .then(|| Bar::Reason(Reason::Evicts { policy: Arc::clone(&memory.policy) }))
    }

    pub(super) fn members(&self) -> &[Member] {
        self.members.get().map_or(&[], |members| members)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        crate::sync::lock(&self.state)
    }
}

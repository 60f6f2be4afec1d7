use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use ::redis::{Pipeline, Value};
use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::sync::{Notify, mpsc, oneshot};

use super::{Layout, Standing, activate, copy};
use crate::{
    error::Reason,
    lock::{Jump, Soundness},
    node::redis::{
        RedisSettings,
        encode::Keys,
        guards::{EvictionGuard, RestartGuard},
        status::{Bar, BarKind, Status},
    },
    quorum::{
        enrol::{Enrolment, Outcome, Sight, Step},
        offsets::{Interval, Jury, StoodStill},
    },
    time::{AdjustedClock, Clock, Timestamp},
};

/// What the nodes of one manager have in common: which of them may vote, and why not.
#[derive(Debug)]
pub(crate) struct NodeSet {
    pub(in crate::node::redis) layout: Layout,
    pub(in crate::node::redis) keys: Keys,
    pub(in crate::node::redis) settings: RedisSettings,
    clock: Arc<AdjustedClock>,
    soundness: Arc<Soundness>,
    members: OnceLock<Box<[Member]>>,
    state: Mutex<State>,
    changed: Notify,
    /// The highest floor that a node told: no token may be proposed below it.
    floor: AtomicU64,
    /// How often our own clock was put forward instead of what a node was accused of.
    corrections: Box<[AtomicU64]>,
    closed: AtomicBool,
    /// Where the set stands among the manager's nodes.
    first: usize,
}

/// One node of the set.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) status: Arc<Status>,
    admin: mpsc::UnboundedSender<Admin>,
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
struct State {
    enrolment: Enrolment,
    jury: Jury,
    run_ids: Box<[Option<Arc<str>>]>,
    /// Which nodes still take over records.
    copying: Box<[Copying]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copying {
    Done,
    Wanted(Timestamp),
    UnderWay,
}

/// A node that has not answered by then is tried again later.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
const COPY_RETRY: Duration = Duration::from_millis(500);

enum Ended {
    Activation { node: usize, outcome: Outcome },
    Copy { node: usize, done: bool },
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
            jury: Jury::new(nodes, settings.slack()),
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

    /// Takes how a node stands, and decides whether it may vote.
    pub(in crate::node::redis) fn report(&self, node: usize, standing: &Standing, now: Timestamp) {
        if standing.tag.is_active() && standing.tag.layout() == &*self.layout.hash {
            self.floor.fetch_max(standing.floor, Ordering::Relaxed);
        }
        let mut state = self.state();
        state.run_ids[node] = Some(Arc::clone(&standing.run_id));
        let (sight, bar) = self.judge(standing);
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
        self.state().enrolment.see(node, Sight::Out, now);
    }

    /// A server's clock jumped; or ours stood still, which is then put right.
    ///
    /// If it was the server's, it has no vote until `until`.
    pub(in crate::node::redis) fn jumped(
        &self,
        node: usize,
        by: Interval,
        (now, until): (Timestamp, Timestamp),
    ) {
        let verdict = self.state().jury.report(node, by, now);
        let name = self.members()[node].status.name();
        if let Some(StoodStill { at_most, accused }) = &verdict {
            tracing::warn!(
                by = ?at_most,
                "a quorum of servers' clocks went ahead together: our own clock stood still; every deadline comes earlier by that"
            );
            self.clock.put_forward(*at_most);
            for &node in accused {
                self.corrections[node].fetch_add(1, Ordering::AcqRel);
            }
            self.soundness.look_again();
        } else {
            tracing::warn!(
                node = %name,
                by = %Shown(by),
                "the server's clock jumped; it does not vote for max_ttl"
            );
            let bar = Bar::Clock { until, by };
            self.members()[node].status.set_bar(BarKind::Clock, Some(bar));
            let by_micros = by.low.midpoint(by.high);
            self.soundness.jumped(self.first + node, Jump { seen: now, by_micros });
        }
        // Whose clock it was shows when the others are looked at; and who was accused without a
        // reason has its vote again with the next look.
        for (other, member) in self.members().iter().enumerate() {
            if other != node || verdict.is_some() {
                let _ = member.admin.send(Admin::Check);
            }
        }
    }

    fn judge(&self, standing: &Standing) -> (Sight, Option<Bar>) {
        let ours = standing.tag.layout() == &*self.layout.hash;
        let current = standing.tag.incarnation() == &*standing.incarnation;
        if ours && current && standing.tag.is_active() {
            (Sight::Active, None)
        } else if ours && standing.tag.is_probation() {
            let tag = Arc::clone(standing.tag.text());
            let moved = standing.tag.is_moved();
            (Sight::Probation { tag, max_ttl: standing.max_ttl, moved }, None)
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

    /// Lets [`run`](Self::run) end.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Ends probations and takes over records, until it is closed.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut under_way = FuturesUnordered::new();
        loop {
            if self.closed.load(Ordering::Acquire) {
                return;
            }
            let now = self.clock.now();
            let (steps, copies, wake) = self.due(now);
            for step in steps {
                under_way.push(self.work(Work::Activate(step)));
            }
            for node in copies {
                under_way.push(self.work(Work::Copy(node)));
            }
            let wait = async {
                match wake {
                    Some(at) => self.clock.wait(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.changed.notified() => {}
                () = wait => {}
                Some(ended) = under_way.next() => self.ended(&ended),
            }
        }
    }

    fn due(&self, now: Timestamp) -> (Vec<Step>, Vec<usize>, Option<Timestamp>) {
        let mut state = self.state();
        let (steps, mut wake) = if self.is_unguarded() {
            (Vec::new(), None)
        } else {
            (state.enrolment.due(now), state.enrolment.next_wake())
        };
        let mut copies = Vec::new();
        for (node, copying) in state.copying.iter_mut().enumerate() {
            if let Copying::Wanted(at) = *copying {
                if at <= now {
                    *copying = Copying::UnderWay;
                    copies.push(node);
                } else {
                    wake = Some(wake.map_or(at, |wake| wake.min(at)));
                }
            }
        }
        (steps, copies, wake)
    }

    async fn work(&self, work: Work) -> Ended {
        match work {
            Work::Activate(step) => {
                let node = step.node;
                Ended::Activation { node, outcome: activate::activate(self, step).await }
            }
            Work::Copy(node) => Ended::Copy { node, done: copy::copy(self, node).await },
        }
    }

    fn ended(&self, ended: &Ended) {
        let now = self.clock.now();
        let mut state = self.state();
        let node = match *ended {
            Ended::Activation { node, outcome } => {
                state.enrolment.ended(node, outcome, now);
                node
            }
            Ended::Copy { node, done } => {
                state.copying[node] =
                    if done { Copying::Done } else { Copying::Wanted(now + COPY_RETRY) };
                node
            }
        };
        drop(state);
        let _ = self.members()[node].admin.send(Admin::Check);
    }

    /// Runs commands on a node, beside its operations.
    pub(super) async fn ask(&self, node: usize, pipeline: Pipeline) -> Result<Vec<Value>, Reason> {
        let (sender, receiver) = oneshot::channel();
        let _ = self.members()[node].admin.send(Admin::Run(pipeline, sender));
        match tokio::time::timeout(ANSWER_TIMEOUT, receiver).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Reason::Disconnected),
            Err(_) => Err(Reason::TimedOut),
        }
    }

    pub(super) fn members(&self) -> &[Member] {
        self.members.get().map_or(&[], |members| members)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        crate::sync::lock(&self.state)
    }
}

enum Work {
    Activate(Step),
    Copy(usize),
}

/// A jump as people say it.
struct Shown(Interval);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let middle = self.0.low.midpoint(self.0.high);
        let size = Duration::from_micros(middle.unsigned_abs());
        write!(f, "{size:.3?} {}", if middle < 0 { "back" } else { "forward" })
    }
}

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::enrol::Standing;
use crate::{
    error::Reason,
    metrics,
    node::{ClockOffset, CopyProgress, Finding, NodeHealth, NodeState, Op},
    quorum::offsets::Interval,
    time::{Clock, Timestamp},
};

/// What the supervisor knows of its server, shared with those who send.
#[derive(Debug)]
pub(super) struct Status {
    name: Arc<str>,
    clock: Arc<dyn Clock>,
    /// Read on every operation; the rest only where one is set.
    down: AtomicBool,
    refusing: AtomicBool,
    barred: AtomicBool,
    /// By how many µs the server's wall clock is ahead of our clock, at least.
    ahead: AtomicI64,
    pub(super) in_flight: AtomicUsize,
    detail: Mutex<Detail>,
}

#[derive(Debug)]
struct Detail {
    state: State,
    bars: [Option<(Bar, Timestamp)>; 5],
    /// Records are being copied to the server: how many by now, and since when.
    copying: Option<(Copied, Timestamp)>,
    /// What else is known of a server that is there.
    known: NodeHealth,
}

/// What was copied to a server by the client that does so.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Copied {
    pub(super) records: u64,
    pub(super) bytes: u64,
}

#[derive(Debug)]
enum State {
    Connecting,
    Up,
    Refusing { reason: Reason, since: Timestamp },
    Down { reason: Reason, since: Timestamp },
}

/// Of a server whose clock was not read by the present connection.
const UNKNOWN: i64 = i64::MIN;

/// Why a server that is there has no vote at present.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Bar {
    Probation { until: Timestamp },
    Clock { until: Timestamp, by: Interval },
    Reason(Reason),
}

/// Where a bar comes from; they come and go apart from each other, and the first is shown.
#[derive(Clone, Copy, Debug)]
pub(super) enum BarKind {
    SameServer,
    Enrolment,
    Names,
    Eviction,
    Clock,
}

impl Bar {
    /// What it says to a vote; nothing once it is over.
    fn reason(&self, now: Timestamp) -> Option<Reason> {
        match self {
            Self::Probation { until } => Some(Reason::Probation { remaining: until.since(now) }),
            Self::Clock { until, .. } if now >= *until => None,
            Self::Clock { by, .. } => {
                Some(Reason::ClockJumped { by_micros: by.low.midpoint(by.high) })
            }
            Self::Reason(reason) => Some(reason.clone()),
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
            && match (self, other) {
                (Self::Reason(reason), Self::Reason(other)) => reason == other,
                _ => true,
            }
    }
}

impl Status {
    pub(super) fn new(name: Arc<str>, clock: Arc<dyn Clock>) -> Self {
        let known = NodeHealth::voting(&name);
        let bars = [const { None }; 5];
        let detail = Detail { state: State::Connecting, bars, copying: None, known };
        Self {
            name,
            clock,
            down: AtomicBool::new(false),
            refusing: AtomicBool::new(false),
            barred: AtomicBool::new(false),
            ahead: AtomicI64::new(UNKNOWN),
            in_flight: AtomicUsize::new(0),
            detail: Mutex::new(detail),
        }
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// What the server's wall clock shows, if it is connected: the time since the Unix epoch.
    pub(super) fn wall(&self, now: Timestamp) -> Option<Duration> {
        let ahead = Some(self.ahead.load(Ordering::Relaxed)).filter(|ahead| *ahead != UNKNOWN)?;
        let micros = (now.as_nanos() / 1_000).checked_add_signed(ahead)?;
        Some(Duration::from_micros(micros))
    }

    /// Takes by how much its wall clock is ahead of our clock, in µs.
    pub(super) fn set_ahead(&self, micros: i64) {
        self.ahead.store(micros, Ordering::Relaxed);
    }

    /// Our clock was put forward.
    pub(super) fn put_forward(&self, by: Duration) {
        let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        let less = |ahead: i64| (ahead != UNKNOWN).then(|| ahead.saturating_sub(by));
        let _ = self.ahead.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
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

    /// Why the node has no vote, if it is so.
    pub(super) fn barred(&self) -> Option<Reason> {
        if !self.barred.load(Ordering::Acquire) {
            return None;
        }
        let now = self.clock.now();
        let detail = self.detail();
        detail.bars.iter().flatten().find_map(|(bar, _)| bar.reason(now))
    }

    /// Why the node is not asked for this now. One that may not grant may still keep and release
    /// what it has; not so one that may not be the owner of its name.
    pub(super) fn bars(&self, op: &Op) -> Option<Reason> {
        let reason = self.barred()?;
        let renews = !matches!(
            reason,
            Reason::SameServer { .. }
                | Reason::OtherLayout { .. }
                | Reason::Displaced
                | Reason::NamesDiffer
        );
        let barred = op.is_vote() || (matches!(op, Op::Extend { .. }) && !renews);
        barred.then_some(reason)
    }

    pub(super) fn set_bar(&self, kind: BarKind, bar: Option<Bar>) {
        let now = self.clock.now();
        let mut detail = self.detail();
        let slot = &mut detail.bars[kind as usize];
        let since = match (&*slot, &bar) {
            (Some((old, since)), Some(new)) if old.is_like(new) => *since,
            (_, Some(new)) => {
                self.tell(new, now);
                now
            }
            (Some(_), None) => {
                tracing::info!(node = %self.name, "the node may vote again");
                now
            }
            _ => now,
        };
        *slot = bar.map(|bar| (bar, since));
        let any = detail.bars.iter().any(Option::is_some);
        self.barred.store(any, Ordering::Release);
        self.count(&detail);
    }

    fn tell(&self, bar: &Bar, now: Timestamp) {
        match bar {
            Bar::Probation { until } => tracing::info!(
                node = %self.name,
                votes_in = ?until.since(now),
                "the node may have forgotten locks, and is in probation"
            ),
            // Told where it is found out, with what was done about it.
            Bar::Clock { .. } => {}
            Bar::Reason(reason) => tracing::warn!(node = %self.name, %reason, "node has no vote"),
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
        detail.known.version = version;
        detail.known.round_trip = Some(round_trip);
        self.down.store(false, Ordering::Release);
        self.count(&detail);
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
        detail.known.round_trip = None;
        detail.known.findings.clear();
        self.ahead.store(UNKNOWN, Ordering::Relaxed);
        self.refusing.store(false, Ordering::Release);
        self.down.store(true, Ordering::Release);
        self.count(&detail);
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
        self.count(&detail);
    }

    /// A vote counted, or a probe was taken.
    pub(super) fn set_obliging(&self) {
        // Asked on every grant: it is nearly always so.
        if !self.refuses() || !self.refusing.swap(false, Ordering::AcqRel) {
            return;
        }
        let mut detail = self.detail();
        if let State::Refusing { since, .. } = &detail.state {
            let outage = self.clock.now().since(*since);
            tracing::info!(node = %self.name, ?outage, "node refuses no longer");
            detail.state = State::Up;
        }
        self.count(&detail);
    }

    pub(super) fn refuses(&self) -> bool {
        self.refusing.load(Ordering::Acquire)
    }

    /// What a look at the server showed.
    pub(super) fn set_known(&self, standing: &Standing, clock: ClockOffset, round_trip: Duration) {
        let mut detail = self.detail();
        let known = &mut detail.known;
        let evicts = standing.memory.as_ref().filter(|memory| memory.evicts());
        if let Some(memory) = evicts
            && known.memory.as_ref().is_none_or(|known| known != memory)
        {
            tracing::warn!(
                node = %self.name,
                policy = %memory.policy,
                limit = memory.limit,
                "the server may evict locks: set maxmemory-policy noeviction"
            );
        }
        known.round_trip = Some(round_trip);
        known.clock = Some(clock);
        known.run_id = Some(Arc::clone(&standing.run_id));
        known.incarnation = Some(Arc::clone(&standing.run));
        known.memory.clone_from(&standing.memory);
        known.persistence = standing.persistence;
        known.max_ttl = (!standing.max_ttl.is_zero()).then_some(standing.max_ttl);
    }

    pub(super) fn set_findings(&self, findings: Vec<Finding>) {
        self.detail().known.findings = findings;
    }

    /// Whether records are being copied to the server.
    pub(super) fn set_copying(&self, is_copying: bool) {
        let now = self.clock.now();
        let mut detail = self.detail();
        if detail.copying.is_some() == is_copying {
            return;
        }
        detail.copying = is_copying.then(|| (Copied::default(), now));
        drop(detail);
        metrics::copying(&self.name, is_copying);
    }

    /// How far the copying of records is.
    pub(super) fn set_copied(&self, copied: Copied) {
        if let Some((known, _)) = &mut self.detail().copying {
            *known = copied;
        }
    }

    pub(super) fn copied(&self) -> Copied {
        self.detail().copying.map_or(Copied::default(), |(copied, _)| copied)
    }

    pub(super) fn health(&self) -> NodeHealth {
        let now = self.clock.now();
        let detail = self.detail();
        let bar = detail
            .bars
            .iter()
            .flatten()
            .find_map(|(bar, since)| Some((bar.reason(now)?, now.since(*since))));
        let state = match (&detail.state, bar) {
            (State::Connecting, _) => NodeState::Connecting,
            (State::Down { reason, since }, _) => {
                NodeState::Down { reason: reason.clone(), since: now.since(*since) }
            }
            (_, Some((Reason::Probation { remaining }, since))) => {
                NodeState::Probation { remaining, since }
            }
            (_, Some((reason, since))) => NodeState::Refusing { reason, since },
            (State::Refusing { reason, since }, None) => {
                NodeState::Refusing { reason: reason.clone(), since: now.since(*since) }
            }
            (State::Up, None) => NodeState::Voting,
        };
        let is_there = !matches!(state, NodeState::Connecting | NodeState::Down { .. });
        let copying = detail.copying.filter(|_| is_there).map(|(copied, since)| {
            CopyProgress::new(copied.records, copied.bytes, now.since(since))
        });
        NodeHealth {
            state,
            copying,
            in_flight: self.in_flight.load(Ordering::Relaxed),
            ..detail.known.clone()
        }
    }

    fn count(&self, detail: &Detail) {
        let is_up = matches!(detail.state, State::Up | State::Refusing { .. });
        let is_barred = detail.bars.iter().any(Option::is_some);
        let is_voting = matches!(detail.state, State::Up) && !is_barred;
        metrics::node(&self.name, is_up, is_voting);
    }

    fn detail(&self) -> std::sync::MutexGuard<'_, Detail> {
        crate::sync::lock(&self.detail)
    }
}

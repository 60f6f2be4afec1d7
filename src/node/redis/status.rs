//! The status of a server, shared by its connection and the senders.

use std::{sync::Arc, task::Waker, time::Duration};

use super::{
    enrol::NodeReport,
    permissions::Denied,
    server_traits::ServerTraits,
    status_detail::{ConnectionState, Copied, StatusDetail, VoteObstacle, VoteObstacleKind},
    status_event::StatusEvent,
};
use crate::{
    error::Reason,
    events::Events,
    log_budget::MessageLevel,
    node::{Blocked, ClockOffset, Finding, NodeHealth},
    protocol::Op,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Clock, Timestamp},
};

/// The status of a server.
///
/// Changes queue events under the mutex; [`emit`](Self::emit) emits them after it is unlocked, as
/// subscribers may ask for the node's health. One thread emits at a time, in order.
#[derive(Debug)]
pub(crate) struct Status {
    name: Arc<str>,
    clock: Arc<dyn Clock>,
    events: Arc<Events>,
    /// Whether the server is down, read on every operation. The details are read only if it is, or
    /// if it is barred.
    down: AtomicBool,
    refusing: AtomicBool,
    barred: AtomicBool,
    /// Minimum lead of the server's wall clock over the local clock, in µs.
    ahead: AtomicI64,
    pub(super) in_flight: Arc<AtomicUsize>,
    /// Arrival of the first operation that the connection has not received; zero if there is none.
    stamp: AtomicU64,
    /// Time that operations waited before they were written, in ns.
    queue_delay: AtomicU64,
    detail: Mutex<StatusDetail>,
    /// Woken each time the server is up or may vote again.
    on_return: Mutex<Vec<Arc<Waker>>>,
}

/// Value before the current connection has read the clock.
const UNKNOWN: i64 = i64::MIN;

impl Status {
    pub(super) fn new(name: Arc<str>, clock: Arc<dyn Clock>, events: Arc<Events>) -> Self {
        let detail = StatusDetail::new(&name);
        Self {
            name,
            clock,
            events,
            down: AtomicBool::new(false),
            refusing: AtomicBool::new(false),
            barred: AtomicBool::new(false),
            ahead: AtomicI64::new(UNKNOWN),
            in_flight: Arc::default(),
            stamp: AtomicU64::new(0),
            queue_delay: AtomicU64::new(0),
            detail: Mutex::new(detail),
            on_return: Mutex::default(),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns the server's wall clock while connected, as the time since the Unix epoch.
    pub(super) fn wall(&self, now: Timestamp) -> Option<Duration> {
        let ahead = Some(self.ahead.load(Ordering::Relaxed)).filter(|ahead| *ahead != UNKNOWN)?;
        let micros = (now.as_nanos() / 1_000).checked_add_signed(ahead)?;
        Some(Duration::from_micros(micros))
    }

    /// Sets the minimum lead of its wall clock over the local clock, in µs.
    pub(super) fn set_ahead(&self, micros: i64) {
        self.ahead.store(micros, Ordering::Relaxed);
    }

    /// Adjusts to a correction of the local clock.
    pub(super) fn put_forward(&self, by: Duration) {
        let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        let less = |ahead: i64| (ahead != UNKNOWN).then(|| ahead.saturating_sub(by));
        let _ = self.ahead.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Records the arrival of an operation if it is the first one since `take_stamp`.
    pub(super) fn stamp(&self) {
        if self.stamp.load(Ordering::Relaxed) == 0 {
            self.stamp.store(self.clock.now().as_nanos(), Ordering::Relaxed);
        }
    }

    /// Returns the arrival of the first operation since the last call.
    pub(super) fn take_stamp(&self) -> Option<Timestamp> {
        let stamp = self.stamp.swap(0, Ordering::Relaxed);
        (stamp > 0).then(|| Timestamp::from_nanos(stamp))
    }

    pub(super) fn set_queue_delay(&self, delay: Duration) {
        let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        self.queue_delay.store(nanos, Ordering::Relaxed);
        crate::metrics::queue_delay(&self.name, delay);
    }

    /// Returns the reason while the server is down.
    pub(super) fn down(&self) -> Option<Reason> {
        if !self.down.load(Ordering::Acquire) {
            return None;
        }
        match &self.detail().state {
            ConnectionState::Down { reason, .. } => Some(reason.clone()),
            _ => None,
        }
    }

    /// Returns the reason while the node has no vote.
    pub(super) fn barred(&self) -> Option<Reason> {
        if !self.barred.load(Ordering::Acquire) {
            return None;
        }
        let now = self.clock.now();
        let detail = self.detail();
        detail.obstacles.iter().flatten().find_map(|(obstacle, _)| obstacle.reason(now))
    }

    /// Returns whether the server is connected and does not vote.
    pub(super) fn lacks_vote(&self) -> bool {
        let is_down = self.down.load(Ordering::Acquire);
        let is_out = [&self.barred, &self.refusing].map(|flag| flag.load(Ordering::Acquire));
        !is_down && is_out.contains(&true)
    }

    /// Returns the reason not to send an operation. A node that must not grant may still renew and
    /// release, and store that work is done; a node whose name another server may own must not.
    pub(super) fn refuses(&self, op: &Op) -> Option<Reason> {
        let reason = self.barred()?;
        let renews = !matches!(
            reason,
            Reason::SameServer { .. }
                | Reason::OtherLayout { .. }
                | Reason::Displaced
                | Reason::NamesDiffer
        );
        let is_upkeep = matches!(op, Op::Extend(_) | Op::Repair(_));
        let barred = op.is_vote() || (is_upkeep && !renews);
        barred.then_some(reason)
    }

    pub(super) fn set_obstacle(&self, kind: VoteObstacleKind, obstacle: Option<VoteObstacle>) {
        self.queue_obstacle(kind, obstacle);
        self.emit();
    }

    /// Like [`set_obstacle`](Self::set_obstacle), for callers that hold a mutex; they call
    /// [`emit`](Self::emit) after unlocking it.
    pub(super) fn queue_obstacle(&self, kind: VoteObstacleKind, obstacle: Option<VoteObstacle>) {
        let now = self.clock.now();
        let mut detail = self.detail();
        let slot = &mut detail.obstacles[kind as usize];
        let (since, event) = match (&*slot, &obstacle) {
            (Some((old, since)), Some(new)) if old.is_like(new) => (*since, None),
            (_, Some(new)) => (now, new.event(now)),
            (Some(_), None) => (now, Some(StatusEvent::MayVote)),
            (None, None) => (now, None),
        };
        if matches!(kind, VoteObstacleKind::Enrolment)
            && !matches!(obstacle, Some(VoteObstacle::Probation { .. }))
        {
            detail.blocked = None;
        }
        detail.obstacles[kind as usize] = obstacle.map(|obstacle| (obstacle, since));
        let any = detail.obstacles.iter().any(Option::is_some);
        self.barred.store(any, Ordering::Release);
        detail.queue(event, now);
    }

    pub(super) fn set_up(&self, address: Arc<str>, traits: ServerTraits, round_trip: Duration) {
        self.change(|detail, now| {
            let event = match &detail.state {
                ConnectionState::Down { since, .. } => {
                    StatusEvent::UpAgain { outage: now.saturating_duration_since(*since) }
                }
                _ => StatusEvent::Up,
            };
            detail.state = ConnectionState::Up;
            (detail.known.kind, detail.known.version) = (traits.kind, traits.version);
            detail.limits = traits.limits;
            detail.denied.connecting = None;
            detail.known.address = Some(address);
            detail.known.round_trip = Some(round_trip);
            Some(event)
        });
    }

    pub(super) fn set_down(&self, reason: Reason) {
        self.change(|detail, now| {
            let (since, event) = match &detail.state {
                ConnectionState::Down { since, reason: known } if *known == reason => {
                    (*since, None)
                }
                ConnectionState::Down { since, .. } => {
                    (*since, Some(StatusEvent::StillDown { reason: reason.clone() }))
                }
                _ => (now, Some(StatusEvent::Down { reason: reason.clone() })),
            };
            if matches!(detail.state, ConnectionState::Up | ConnectionState::Refusing { .. }) {
                detail.breaks.note(reason.clone(), now);
            }
            detail.denied.connecting = reason.denied_command();
            detail.state = ConnectionState::Down { reason, since };
            detail.known.round_trip = None;
            detail.known.findings.clear();
            self.ahead.store(UNKNOWN, Ordering::Relaxed);
            event
        });
    }

    /// Records a refusal that concerns votes in general.
    pub(super) fn set_refusing(&self, reason: &Reason) {
        self.change(|detail, now| {
            let (since, event) = match &detail.state {
                ConnectionState::Refusing { since, .. } => (*since, None),
                ConnectionState::Up => (now, Some(StatusEvent::Refuses { reason: reason.clone() })),
                ConnectionState::Connecting | ConnectionState::Down { .. } => return None,
            };
            let reason = reason.clone();
            detail.state = ConnectionState::Refusing { reason, since, latest: now };
            event
        });
    }

    /// Ends the refusal of votes if `is_over` returns true for its reason and the time since the
    /// latest refusal.
    pub(super) fn end_refusing(&self, is_over: impl FnOnce(&Reason, Duration) -> bool) {
        if !self.refusing.load(Ordering::Acquire) {
            return;
        }
        self.change(|detail, now| {
            let ConnectionState::Refusing { reason, since, latest } = &detail.state else {
                return None;
            };
            if !is_over(reason, now.saturating_duration_since(*latest)) {
                return None;
            }
            let outage = now.saturating_duration_since(*since);
            detail.state = ConnectionState::Up;
            Some(StatusEvent::RefusesNoLonger { outage })
        });
    }

    /// Records a health check.
    pub(super) fn set_known(&self, report: &NodeReport, clock: ClockOffset, round_trip: Duration) {
        self.change(|detail, _| {
            let event = report.memory.as_ref().and_then(|memory| detail.begins_to_evict(memory));
            let known = &mut detail.known;
            known.round_trip = Some(round_trip);
            known.clock = Some(clock);
            known.run_id = Some(Arc::clone(&report.run_id)).filter(|id| !id.is_empty());
            known.incarnation = Some(Arc::clone(&report.run));
            known.memory.clone_from(&report.memory);
            known.persistence = report.persistence;
            known.max_ttl = (!report.max_ttl.is_zero()).then_some(report.max_ttl);
            event
        });
    }

    /// Changes the known denied commands.
    pub(super) fn denied<T>(&self, change: impl FnOnce(&mut Denied) -> T) -> T {
        change(&mut self.detail().denied)
    }

    /// Records whether a command of the listener is denied.
    pub(super) fn set_listening(&self, command: &'static str, is_denied: bool) {
        if self.denied(|denied| denied.listening(command, is_denied)) && is_denied {
            self.change(|_, _| Some(StatusEvent::Denied { command }));
        }
    }

    /// Emits an event that does not change the status.
    pub(super) fn report(&self, event: StatusEvent) {
        self.change(|_, _| Some(event));
    }

    /// Records that the listener's connection broke, or failed to open. While the server is down,
    /// that is the cause, and nothing is recorded.
    pub(super) fn listening_broke(&self, reason: Reason) {
        let now = self.clock.now();
        let mut detail = self.detail();
        if !matches!(detail.state, ConnectionState::Down { .. }) {
            detail.wakeup_breaks.note(reason, now);
        }
    }

    /// Records a failure to end the probation, with the answer of the node that caused it.
    pub(super) fn not_activated(&self, asked: &Arc<str>, reason: Reason) {
        self.change(|detail, _| {
            let blocked = Blocked::new(Arc::clone(asked), reason.clone());
            let before = detail.blocked.take();
            let failed = before.as_ref().map_or(0, |(_, failed)| *failed).saturating_add(1);
            // The first failure may be due to the order in which nodes are activated.
            let is_new =
                failed == 2 || (failed > 2 && before.is_some_and(|(before, _)| before != blocked));
            detail.blocked = Some((blocked, failed));
            Some(StatusEvent::NotActivated { asked: Arc::clone(asked), reason, is_new })
        });
    }

    pub(super) fn set_findings(&self, findings: Vec<Finding>) {
        self.detail().known.findings = findings;
    }

    /// Sets whether records are being copied to the server.
    pub(super) fn set_copying(&self, is_copying: bool) {
        let now = self.clock.now();
        let mut detail = self.detail();
        if detail.copying.is_some() == is_copying {
            return;
        }
        detail.copying = is_copying.then(|| (Copied::default(), now));
        drop(detail);
        crate::metrics::copying(&self.name, is_copying);
    }

    pub(super) fn set_copied(&self, copied: Copied) {
        if let Some((known, _)) = &mut self.detail().copying {
            *known = copied;
        }
    }

    pub(super) fn copied(&self) -> Copied {
        self.detail().copying.map_or(Copied::default(), |(copied, _)| copied)
    }

    pub(super) fn health(&self) -> NodeHealth {
        NodeHealth {
            in_flight: self.in_flight.load(Ordering::Relaxed),
            queue_delay: Duration::from_nanos(self.queue_delay.load(Ordering::Relaxed)),
            ..self.detail().health(self.clock.now())
        }
    }

    /// Emits queued events, unless another thread does.
    pub(super) fn emit(&self) {
        let _emitting = {
            let mut detail = self.detail();
            if detail.events.queue.is_empty() || detail.events.emitting {
                return;
            }
            detail.events.emitting = true;
            EmitGuard(self)
        };
        while let Some((event, level)) = self.next_event() {
            if event.is_return() {
                self.returned();
            }
            if let Some(kind) = event.public(&self.name) {
                self.events.send(&*self.clock, || kind);
            }
            event.emit(&self.name, level);
        }
    }

    /// Returns the next event; without one, ends the emission.
    fn next_event(&self) -> Option<(StatusEvent, MessageLevel)> {
        let mut detail = self.detail();
        let event = detail.events.queue.pop_front();
        detail.events.emitting = event.is_some();
        event
    }

    /// Wakes `waker` each time the server is up or may vote again.
    pub(super) fn wake_on_return(&self, waker: Waker) {
        crate::sync::lock(&self.on_return).push(Arc::new(waker));
    }

    fn returned(&self) {
        let wakers = crate::sync::lock(&self.on_return).clone();
        for waker in wakers {
            crate::sync::wake_by_ref(&waker);
        }
    }

    fn change(&self, change: impl FnOnce(&mut StatusDetail, Timestamp) -> Option<StatusEvent>) {
        let now = self.clock.now();
        {
            let mut detail = self.detail();
            let event = change(&mut detail, now);
            let (is_down, is_refusing) = match detail.state {
                ConnectionState::Connecting | ConnectionState::Up => (false, false),
                ConnectionState::Refusing { .. } => (false, true),
                ConnectionState::Down { .. } => (true, false),
            };
            self.refusing.store(is_refusing, Ordering::Release);
            self.down.store(is_down, Ordering::Release);
            detail.queue(event, now);
        }
        self.emit();
    }

    fn detail(&self) -> crate::sync::Guard<'_, StatusDetail> {
        crate::sync::lock(&self.detail)
    }
}

/// Held while a thread emits. If a subscriber panics, the next change emits the rest.
struct EmitGuard<'a>(&'a Status);

impl Drop for EmitGuard<'_> {
    fn drop(&mut self) {
        if crate::sync::thread::panicking() {
            self.0.detail().events.emitting = false;
        }
    }
}

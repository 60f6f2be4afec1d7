use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use super::{
    outlook::{Outlook, is_crowd, outlook, turn},
    registry::Waiting,
};
use crate::{
    error::LockError,
    lock::{
        core::Core,
        queue::{self, Queue},
        settings::Plan,
    },
    node::Node,
    protocol::rules,
    quorum::Gate,
    random,
    resource::Resource,
    time::{Sleep, Timestamp},
};

/// While a quorum of nodes would tell of the release, a name is asked for this seldom: messages get
/// lost.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Minimum mean interval between the tries of all requests of a manager that would be told of a
/// release. With more of them than fit, each one pauses for longer.
const TOLD_SPACING: Duration = Duration::from_millis(1);

/// The same for requests whose tries no quorum answers: they find out that the servers are back.
const SILENT_SPACING: Duration = Duration::from_micros(250);

/// What one request knows of its tries so far.
#[derive(Debug, Default)]
pub(crate) struct Retries {
    waiting: Option<Waiting>,
    /// When the last try began.
    tried: Option<Timestamp>,
    /// The node that the next try, or the one under way, asks first.
    gate: Option<Gate>,
    /// What the last try that asked all nodes met.
    last: Option<LockError>,
    /// Some nodes granted the last try, and not enough: the next one asks one of them first.
    split: bool,
    /// By the word of a quorum somebody else holds the name: for how long at least nobody need ask,
    /// if releases are told.
    held_for: Option<Duration>,
    /// Tries in a row without the word of a quorum.
    silent: u32,
    /// How long the last try waited for a permit.
    queued: Duration,
    /// Among those that wait.
    counted: Option<queue::Waiting>,
}

impl Retries {
    /// A try is to begin: what it asks for.
    pub(crate) fn begin(&mut self, plan: Plan) -> Plan {
        for stake in self.waiting.iter_mut().flat_map(|waiting| &mut waiting.stakes) {
            stake.told = stake.vigil.told();
        }
        Plan { gate: self.gate.or(plan.gate), ..plan }
    }

    /// It began then.
    pub(crate) fn began(&mut self, at: Timestamp) {
        self.tried = Some(at);
    }

    /// A try failed, with so many nodes that granted it, or kept out by the only one that was asked:
    /// what is to be said of the request so far.
    pub(crate) fn failed(
        &mut self,
        error: LockError,
        granted: usize,
        was_kept_out: bool,
    ) -> LockError {
        self.split = granted > 0;
        self.held_for = None;
        self.silent = match &error {
            LockError::Held { .. } => 0,
            _ => self.silent.saturating_add(1),
        };
        self.gate = None;
        if let (true, Some(last)) = (was_kept_out, &self.last) {
            // One node's word decides nothing.
            return last.clone();
        }
        if let (LockError::Held { expires_in, .. }, false) = (&error, self.split) {
            self.held_for = Some(expires_in.unwrap_or(Duration::MAX));
        }
        self.last = Some(error.clone());
        error
    }

    /// What the last try met that asked all nodes.
    pub(crate) fn last(&self) -> Option<&LockError> {
        self.last.as_ref()
    }

    /// The try that begins has waited so long for a permit.
    pub(crate) fn queued(&mut self, waited: Duration) {
        self.queued = waited;
    }

    /// Counts the request among those that wait; false where these are too many.
    pub(crate) fn count(&mut self, queue: &Arc<Queue>, was_in_line: bool) -> bool {
        if self.counted.is_none() {
            self.counted = queue.wait_at_head(was_in_line);
        }
        self.counted.is_some()
    }

    /// The request waits no more.
    pub(crate) fn ended(&mut self) {
        self.counted = None;
    }

    /// A try succeeded: this process has its turn, since then.
    pub(crate) fn succeeded(&mut self, core: &Core, resource: &Resource, since: Timestamp) {
        self.waiting = None;
        core.wakeups.granted(resource, since);
    }

    /// Listens for releases of the resource, if the manager does so at all.
    pub(super) fn listen(&mut self, core: &Core, resource: &Resource) {
        if core.settings.wakeups && self.waiting.is_none() {
            self.waiting = Some(core.wakeups.wait(resource, &core.nodes));
        }
    }

    /// The pause after a try that failed.
    pub(crate) fn pause(
        &mut self,
        core: &Core,
        resource: &Resource,
        plan: &Plan,
        deadline: Timestamp,
    ) -> Pause {
        self.listen(core, resource);
        let short = random::within(&core.settings.retry_delay);
        let heads = core.queue.heads();
        let longest = |spacing| LONGEST_PAUSE.min(plan.ttl / 3).max(spaced(spacing, heads));
        // A request that waited for a permit is one of many, and would wait again.
        let short = backoff(short, self.silent, longest(SILENT_SPACING)).max(self.queued);
        let long = self.held_for.map(|left| left.min(longest(TOLD_SPACING)) + short);
        Pause::new(core, short, long, deadline)
    }
}

/// The pause between two tries: ends when the name may be free, or when it is time to look.
#[derive(Debug)]
pub(crate) struct Pause {
    /// Time from a release that too few nodes told of to the next try.
    short: Duration,
    /// The end for one that is not told of releases.
    blind_until: Timestamp,
    /// The end for one that is told of them.
    quiet_until: Timestamp,
    deadline: Timestamp,
    /// The node that one of many asks first.
    first: Option<usize>,
    sleep: Option<(Timestamp, Sleep)>,
}

impl Pause {
    fn new(core: &Core, short: Duration, long: Option<Duration>, deadline: Timestamp) -> Self {
        let begun = core.clock().now();
        let quiet_until = begun + long.unwrap_or(short);
        let first = first_node(&core.nodes, patience(core.settings.node_timeout));
        Self { short, blind_until: begun + short, quiet_until, deadline, first, sleep: None }
    }

    /// A pause of this length, whether releases are told or not, that a release ends.
    #[cfg(feature = "scheduler")]
    pub(super) fn fixed(core: &Core, length: Duration, short: Duration) -> Self {
        let pause = Self::new(core, short, Some(length), Timestamp::MAX);
        Self { blind_until: pause.quiet_until, ..pause }
    }

    /// Ready when it is time for the next try; it is then known whom that asks first.
    pub(crate) fn poll(
        &mut self,
        retries: &mut Retries,
        core: &Core,
        plan: &Plan,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        loop {
            let now = core.clock().now();
            let outlook = self.outlook(retries, core, cx);
            let crowd = matches!(outlook, Outlook::Free { listening, .. } if is_crowd(listening));
            let until = match outlook {
                // A release that comes meanwhile begins the pause anew.
                Outlook::Free { listening, since } => {
                    since + take_turn(retries, listening, self.first)
                }
                Outlook::Blind => self.blind_until,
                Outlook::Stirring(since) => self.quiet_until.min(since + self.short),
                Outlook::Quiet => self.quiet_until,
            };
            // The last try is made when the wait ends, not a pause before that, and asks everyone.
            if now >= self.deadline {
                return Poll::Ready(());
            }
            if now >= until {
                if crowd || retries.split {
                    retries.gate =
                        self.first.map(|node| Gate { node, patience: patience(plan.node_timeout) });
                }
                return Poll::Ready(());
            }
            let until = until.min(self.deadline);
            if self.sleep.as_ref().is_none_or(|(at, _)| *at != until) {
                self.sleep = Some((until, core.timers.sleep_until(until)));
            }
            let Some((_, sleep)) = &mut self.sleep else { continue };
            if Pin::new(sleep).poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Of a set, each name has to be free: the least is known of the one of which least is known.
    fn outlook(&self, retries: &mut Retries, core: &Core, cx: &Context<'_>) -> Outlook {
        let tried = retries.tried.unwrap_or(Timestamp::ZERO);
        let quorum = rules::quorum(core.nodes.len());
        let Some(waiting) = &mut retries.waiting else { return Outlook::Blind };
        let mut all = Outlook::Quiet;
        for stake in &mut waiting.stakes {
            let terms = ((tried, stake.told), self.first, quorum);
            let one = stake
                .vigil
                .look(&mut stake.watch, cx, |nodes, listening| outlook(nodes, listening, terms));
            all = match (all, one) {
                (
                    Outlook::Free { listening, since },
                    Outlook::Free { listening: b, since: then },
                ) => Outlook::Free { listening: listening.max(b), since: since.max(then) },
                (free @ Outlook::Free { .. }, _) | (_, free @ Outlook::Free { .. }) => free,
                (Outlook::Blind, _) | (_, Outlook::Blind) => Outlook::Blind,
                (Outlook::Stirring(a), Outlook::Stirring(b)) => Outlook::Stirring(a.min(b)),
                (stirring @ Outlook::Stirring(_), _) | (_, stirring) => stirring,
            };
        }
        all
    }
}

/// The pause of each of so many that keeps the spacing, with jitter.
fn spaced(spacing: Duration, waiting: usize) -> Duration {
    let pause = spacing.saturating_mul(u32::try_from(waiting).unwrap_or(u32::MAX));
    random::within(&(pause / 2..=pause))
}

/// The pause after so many tries in a row that no quorum answered: doubled by each, up to `longest`.
fn backoff(short: Duration, silent: u32, longest: Duration) -> Duration {
    match silent {
        0 => short,
        _ => short.saturating_mul(1 << silent.min(10)).min(longest).max(short),
    }
}

fn take_turn(retries: &Retries, listening: usize, first: Option<usize>) -> Duration {
    let Some(first) = first.filter(|_| is_crowd(listening)) else { return Duration::ZERO };
    let stakes = retries.waiting.iter().flat_map(|waiting| &waiting.stakes);
    let passed = stakes.map(|stake| stake.vigil.passed(first)).max().unwrap_or(0);
    turn(listening, passed)
}

/// How long the first node has: a share of the node timeout, so that one that hangs costs little.
fn patience(node_timeout: Duration) -> Duration {
    node_timeout / 5
}

/// The first node, in the order that all processes have in common, that is known to answer in time.
fn first_node(nodes: &[Arc<dyn Node>], patience: Duration) -> Option<usize> {
    nodes.iter().position(|node| {
        let health = node.health();
        health.is_voting() && health.round_trip.is_none_or(|trip| trip < patience / 2)
    })
}

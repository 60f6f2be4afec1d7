//! The pauses between the tries of a request, and the results of the tries.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use super::{
    registry::{NameWait, ResourceWait, Wakeups},
    turns::{
        CurrentTurn, LONGEST_PAUSE, LONGEST_REMINDER, LONGEST_YIELD, NOTIFIED_SPACING,
        ReleaseStatus, SHORTEST_PAUSE, SILENT_SPACING, backoff, is_crowd, max_delay,
        release_status, spaced, turn, yield_pause,
    },
};
use crate::{
    error::LockError,
    lock::{
        client::Client,
        queue::{self, Queue},
        settings::Plan,
        waker_set::WakerKey,
    },
    protocol::formulas,
    quorum::LeadNode,
    random,
    resource::Resource,
    switches::{self, Switch},
    time::{Sleep, Timestamp},
};

/// The results of one request's tries so far.
#[derive(Debug, Default)]
pub(crate) struct RetryHistory {
    waiting: Option<ResourceWait>,
    /// Start of the last try.
    pub(crate) tried: Option<Timestamp>,
    /// The node that the next try, or the current one, asks first.
    lead_node: Option<LeadNode>,
    /// Result of the last try that asked all nodes.
    pub(crate) last: Option<LockError>,
    /// Whether some nodes granted the last try, but no quorum did: the next try asks one node
    /// first.
    split: bool,
    /// Remaining TTL of the holder's key, if a quorum answered that the name is held. While
    /// releases are reported, no try is needed before it ends.
    held_for: Option<Duration>,
    /// Number of tries in a row without an answer of a quorum.
    silent: u32,
    /// Time that the last try waited for a permit.
    pub(crate) permit_wait: Duration,
    pub(crate) counted: Option<queue::CountedWaiter>,
}

impl RetryHistory {
    /// Begins the next try. Returns the node that it asks first, if it asks one.
    pub(crate) fn begin(&mut self) -> Option<LeadNode> {
        self.name_waits().for_each(NameWait::begin);
        self.lead_node
    }

    /// Begins the next try at `now`. Returns the node that it asks first, if it asks one.
    pub(crate) fn begin_at(&mut self, now: Timestamp) -> Option<LeadNode> {
        self.tried = Some(now);
        self.begin()
    }

    /// Begins the next try at `now`: of the names that were released since they were tried last, or of all if
    /// there is none. Returns the positions of the released ones.
    ///
    /// A release of another name stays new, also one that is reported at this moment, or that fewer than a
    /// quorum of nodes have reported so far.
    pub(crate) fn begin_released(
        &mut self,
        client: &Client,
        now: Timestamp,
    ) -> (Vec<usize>, Option<LeadNode>) {
        let (released, last) = (self.released(client), self.tried);
        if released.is_empty() {
            return (released, self.begin_at(now));
        }
        for (nth, name_wait) in self.name_waits().enumerate() {
            if released.binary_search(&nth).is_ok() {
                name_wait.begin();
            } else {
                name_wait.left_out = Some(name_wait.tried(last));
            }
        }
        self.tried = Some(now);
        (released, self.lead_node)
    }

    fn name_waits(&mut self) -> impl Iterator<Item = &mut NameWait> {
        self.waiting.iter_mut().flat_map(|waiting| &mut waiting.name_waits)
    }

    /// Returns the names that were released since they were tried last, by their positions; none if one of
    /// the others may have been released before its subscription.
    fn released(&self, client: &Client) -> Vec<usize> {
        let quorum = formulas::quorum(client.nodes.len());
        let mut released = Vec::new();
        let name_waits = self.waiting.iter().flat_map(|waiting| &waiting.name_waits);
        for (nth, name_wait) in name_waits.enumerate() {
            let tried = name_wait.tried(self.tried);
            let status = name_wait
                .releases
                .read(|nodes, listening| release_status(nodes, listening, tried, None, quorum));
            match status {
                ReleaseStatus::Free { listening: 0, .. } => return Vec::new(),
                ReleaseStatus::Free { .. } => released.push(nth),
                _ => {}
            }
        }
        released
    }

    /// Chooses a lead node for the first try, if many processes wait for the resource. The last try
    /// asks all nodes, as the answer of one is not a verdict.
    pub(crate) fn lead_crowd(
        &mut self,
        client: &Client,
        resource: &Resource,
        plan: &Plan,
        deadline: Timestamp,
    ) {
        let is_last = plan.max_attempts == Some(1) || client.now() >= deadline;
        if !is_last && is_crowd(client.wakeups.listening(resource)) {
            self.lead_node = first_node(client, resource).map(|node| lead_node(node, plan));
        }
    }

    /// Records that a try failed, with the number of nodes that granted it. Returns the error of
    /// the request so far.
    pub(crate) fn failed(
        &mut self,
        error: LockError,
        granted: usize,
        refused_by_lead: bool,
    ) -> LockError {
        self.split = granted > 0;
        self.held_for = None;
        self.silent = match &error {
            LockError::Held { .. } => 0,
            _ => self.silent.saturating_add(1),
        };
        // An attempt that at most the lead node granted was refused by a holder: contenders ask that
        // node first as well.
        let at_most = usize::from(self.lead_node.take().is_some());
        if let LockError::Held { expires_in, .. } = &error
            && granted <= at_most
        {
            self.held_for = Some(expires_in.unwrap_or(Duration::MAX));
        }
        if let (true, Some(last)) = (refused_by_lead, &self.last) {
            // The answer of one node is not a verdict.
            return last.clone();
        }
        self.last = Some(error.clone());
        error
    }

    /// Counts the request as waiting. Returns false if too many requests wait.
    pub(crate) fn count(&mut self, queue: &Arc<Queue>, was_in_line: bool) -> bool {
        if self.counted.is_none() {
            self.counted = queue.wait_at_head(was_in_line);
        }
        self.counted.is_some()
    }

    /// Records that the try that began at `since` succeeded.
    pub(crate) fn succeeded(&mut self, wakeups: &Wakeups, resource: &Resource, since: Timestamp) {
        self.waiting = None;
        wakeups.granted(resource, since);
    }

    /// Subscribes to releases of the resource, if wake-ups are on.
    pub(super) fn listen(&mut self, client: &Client, resource: &Resource) {
        if client.settings.wakeups && self.waiting.is_none() {
            self.waiting = Some(client.wakeups.wait(resource, &client.nodes));
        }
    }

    /// Returns the pause after a failed try. `heads` is the number of requests that wait at the
    /// head of a line of this process.
    pub(crate) fn pause(
        &mut self,
        client: &Client,
        heads: usize,
        resource: &Resource,
        plan: &Plan,
        deadline: Timestamp,
    ) -> Pause {
        self.listen(client, resource);
        let short = random::within(&client.settings.retry_delay);
        let longest =
            |spacing| LONGEST_PAUSE.min(plan.ttl / 3).max(random::within(&spaced(spacing, heads)));
        // A request that waited for a permit would probably wait for the next one as well.
        let short = backoff(short, self.silent, longest(SILENT_SPACING)).max(self.permit_wait);
        let long = self.held_for.map(|left| left.min(longest(NOTIFIED_SPACING)) + short);
        // Servers keep readers out for 2 s after an attempt to write.
        let is_kept_out = matches!(self.last, Some(LockError::Held { readers: 1.., .. }));
        let cap = if is_kept_out && !plan.is_shared() { LONGEST_REMINDER } else { Duration::MAX };
        let (short, long) = (short.min(cap), long.map(|long| long.min(cap)));
        Pause::new(client.now(), first_node(client, resource), short, long, deadline)
    }
}

/// The pause between two tries. It ends when the name may be free, or when its time is over.
#[derive(Debug)]
pub(crate) struct Pause {
    /// Time from a release that fewer than a quorum reported to the next try.
    short: Duration,
    /// End of the pause if releases are not reported.
    unwatched_until: Timestamp,
    /// End of the pause if releases are reported.
    held_until: Timestamp,
    deadline: Timestamp,
    /// The node to ask first if many processes wait.
    first: Option<usize>,
    sleep: Option<(Timestamp, Sleep)>,
}

impl Pause {
    fn new(
        begun: Timestamp,
        first: Option<usize>,
        short: Duration,
        long: Option<Duration>,
        deadline: Timestamp,
    ) -> Self {
        let held_until = begun + long.unwrap_or(short);
        Self { short, unwatched_until: begun + short, held_until, deadline, first, sleep: None }
    }

    /// Creates a pause of a fixed length, which a release ends early.
    #[cfg(feature = "scheduler")]
    pub(super) fn fixed(
        client: &Client,
        resource: Option<&Resource>,
        length: Duration,
        short: Duration,
    ) -> Self {
        let first = resource.and_then(|resource| first_node(client, resource));
        let pause = Self::new(client.now(), first, short, Some(length), Timestamp::MAX);
        Self { unwatched_until: pause.held_until, ..pause }
    }

    /// Polls for the time of the next try, and sets its lead node.
    pub(crate) fn poll(
        &mut self,
        retries: &mut RetryHistory,
        client: &Client,
        plan: &Plan,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        loop {
            let now = client.clock().now();
            let release_status = self.release_status(retries, client, cx);
            let crowd = matches!(release_status, ReleaseStatus::Free { listening, .. } if is_crowd(listening));
            let until = match release_status {
                // Another release restarts the pause.
                ReleaseStatus::Free { listening, since } => {
                    since + take_turn(retries, listening, self.first)
                }
                ReleaseStatus::Unwatched => self.unwatched_until,
                ReleaseStatus::Partial(since) => self.held_until.min(since + self.short),
                ReleaseStatus::Held => self.held_until,
            };
            // The last try, at the deadline, asks all nodes.
            if now >= self.deadline {
                return Poll::Ready(());
            }
            if now >= until {
                if crowd || retries.split {
                    retries.lead_node = self.first.map(|node| lead_node(node, plan));
                }
                return Poll::Ready(());
            }
            let until = until.min(self.deadline);
            if self.sleep.as_ref().is_none_or(|(at, _)| *at != until) {
                self.sleep = Some((until, client.timers.sleep_until(until)));
            }
            let Some((_, sleep)) = &mut self.sleep else { continue };
            if Pin::new(sleep).poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Returns the status of all names, of which a release of any is reason for a try.
    fn release_status(
        &self,
        retries: &mut RetryHistory,
        client: &Client,
        cx: &Context<'_>,
    ) -> ReleaseStatus {
        let (tried, quorum) = (retries.tried, formulas::quorum(client.nodes.len()));
        let Some(waiting) = &mut retries.waiting else { return ReleaseStatus::Unwatched };
        let of_name = |name_wait: &mut NameWait| {
            let tried = name_wait.tried(tried);
            name_wait.releases.watch(&mut name_wait.key, cx, |nodes, listening| {
                release_status(nodes, listening, tried, self.first, quorum)
            })
        };
        waiting.name_waits.iter_mut().map(of_name).fold(ReleaseStatus::Held, ReleaseStatus::and)
    }
}

fn lead_node(node: usize, plan: &Plan) -> LeadNode {
    LeadNode { node, max_delay: max_delay(plan.node_timeout) }
}

fn take_turn(retries: &RetryHistory, listening: usize, first: Option<usize>) -> Duration {
    let Some(first) = first.filter(|_| is_crowd(listening)) else { return Duration::ZERO };
    turn(listening, retries.waiting.as_ref().map_or(0, |waiting| waiting.passed(first)))
}

/// Ratio of two nodes' round trips up to which they are about the same.
const SIMILAR_RATIO: u32 = 8;

/// Returns the first node, in the order that all processes share, that is known to answer in time,
/// and whose clock is not too far behind for the resource's tokens. Where all nodes are slow, as under
/// load, the first of them: without a lead node, each attempt would ask all of them.
fn first_node(client: &Client, resource: &Resource) -> Option<usize> {
    let health: Vec<_> = client.nodes.iter().map(|node| node.health()).collect();
    let voting = health.iter().filter(|health| health.is_voting());
    let fastest = voting.filter_map(|health| health.round_trip).min().unwrap_or_default();
    let in_time = (client.settings.node_timeout / 10).max(fastest * SIMILAR_RATIO);
    let (now, wall) = (client.clock().now(), client.clock().wall());
    client.nodes.iter().zip(health).position(|(node, health)| {
        health.is_voting()
            && health.round_trip.is_none_or(|trip| trip <= in_time)
            && node.wall(now, wall).is_none_or(|wall| client.fences.are_acceptable(resource, wall))
    })
}

/// Returns when this process may try a slot; a later time if other processes that wait have their
/// turn. `unknown_until` is the end of the wait for an answer whether any waits.
pub(crate) fn slot_turn(
    client: &Client,
    slot: &Resource,
    node_timeout: Duration,
    unknown_until: Timestamp,
) -> Timestamp {
    let (streaks, now) = (client.wakeups.streaks(), client.clock().now());
    if switches::is_out(Switch::SlotTurns) {
        return now;
    }
    match streaks.read(|streaks| streaks.turn(slot, now)) {
        CurrentTurn::Others => {
            let before = streaks.change(|streaks| streaks.begin_pause(slot));
            now + turn_pause(client, before, node_timeout)
        }
        CurrentTurn::Unknown if now < unknown_until => now + SHORTEST_PAUSE,
        CurrentTurn::Unknown | CurrentTurn::Ours => now,
    }
}

/// Returns the pause after `before` pauses in which no other process acquired the name.
fn turn_pause(client: &Client, before: u32, node_timeout: Duration) -> Duration {
    let delay = &client.settings.retry_delay;
    if client.settings.wakeups {
        yield_pause(delay, before, node_timeout)
    } else {
        // Other processes poll at this interval.
        random::within(delay)
    }
}

/// The pause before a first try, if other processes may wait for the name.
pub(crate) struct Yield {
    client: Arc<Client>,
    resource: Resource,
    node_timeout: Duration,
    /// End of the pause, or of the wait for a node's answer whether others wait.
    until: Timestamp,
    deadline: Timestamp,
    /// Whether the pause has begun, because others wait.
    has_begun: bool,
    key: WakerKey,
    sleep: Option<(Timestamp, Sleep)>,
}

impl Yield {
    pub(crate) fn new(
        client: &Arc<Client>,
        resource: &Resource,
        plan: &Plan,
        deadline: Timestamp,
    ) -> Self {
        Self {
            client: Arc::clone(client),
            resource: resource.clone(),
            node_timeout: plan.node_timeout,
            until: client.clock().now() + LONGEST_YIELD,
            deadline,
            has_begun: false,
            key: WakerKey::default(),
            sleep: None,
        }
    }

    /// Polls for the turn of this process.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let streaks = self.client.wakeups.streaks();
        let now = self.client.clock().now();
        if !self.has_begun {
            match streaks.watch(&mut self.key, cx, &self.resource, now) {
                CurrentTurn::Ours => return Poll::Ready(()),
                CurrentTurn::Unknown => {}
                CurrentTurn::Others => {
                    self.has_begun = true;
                    let before = streaks.change(|streaks| streaks.begin_pause(&self.resource));
                    self.until = now + turn_pause(&self.client, before, self.node_timeout);
                }
            }
        }
        let until = self.until.min(self.deadline);
        if now >= until {
            return Poll::Ready(());
        }
        let sleep = match &mut self.sleep {
            Some((at, sleep)) if *at == until => sleep,
            other => &mut other.insert((until, self.client.timers.sleep_until(until))).1,
        };
        Pin::new(sleep).poll(cx)
    }
}

impl Drop for Yield {
    fn drop(&mut self) {
        self.client.wakeups.streaks().unwatch(&mut self.key);
    }
}

opaque_debug!(Yield);

#[cfg(test)]
#[path = "../tests/pause.rs"]
mod tests;

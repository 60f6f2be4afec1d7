//! R6 and R14: a node that may have forgotten locks, or is new under its name, does not vote until
//! every lock that it may have forgotten has expired and enough others know it for the owner of its
//! name.
//!
//! A node that lost its data, or went back to older data, has no tag, or that of another
//! incarnation. It is enrolled anew, into a probation. The others are told of it; once enough of them
//! name it and each other, and it knows whom they name, `max_ttl` plus drift is waited, on the
//! client's own clock. Then it learns from the others what it must not fall behind, and is
//! activated. Each client counts for itself; whichever is first activates for all.

use std::{sync::Arc, time::Duration};

use super::node_status::{ActivationOutcome, ActivationPlan, ActivationStep, NodeStatus};
use crate::{
    protocol::{
        names::{self, Incarnation, View},
        rules,
    },
    time::Timestamp,
};

/// The probations of a set of nodes, as one client counts them.
#[derive(Debug)]
pub(crate) struct Enrolment {
    quorum: usize,
    max_ttl: Duration,
    drift_factor: f64,
    nodes: Box<[EnrolledNode]>,
    /// When it was last known that an old set may still grant.
    old_set_seen: Option<Timestamp>,
}

#[derive(Clone, Debug)]
struct EnrolledNode {
    status: NodeStatus,
    /// As it was last seen when it was there.
    known: NodeStatus,
    /// Since when it is out of sight; from the beginning, if it was never seen.
    out_since: Timestamp,
    /// In which incarnation, and when, it was last seen in a probation from which it may start by
    /// itself.
    seen_starting: Option<(Incarnation, Timestamp)>,
    /// Kept while the node is out of sight: its probation goes on.
    wait: Option<Probation>,
    /// The greatest incarnation that is known under the node's name.
    owner: Option<Incarnation>,
    /// Since when it is known that the node is not the owner of its name any more.
    displaced_since: Option<Timestamp>,
    busy: bool,
    retry_at: Timestamp,
}

impl EnrolledNode {
    fn view(&self) -> Option<&Arc<View>> {
        self.known.view()
    }

    /// Whether the node forgot along with one whose probation began at `since`: it is in probation
    /// as well, or was so at the same time.
    fn starts_with(&self, since: Timestamp) -> bool {
        let incarnation = self.view().map(|view| view.incarnation);
        let together = |(starting, seen)| Some(starting) == incarnation && seen >= since;
        self.known.starts() || (self.known.is_active() && self.seen_starting.is_some_and(together))
    }

    fn is_displaced(&self) -> bool {
        self.view().is_some_and(|view| Some(view.incarnation) < self.owner)
    }
}

#[derive(Clone, Debug)]
struct Probation {
    incarnation: Incarnation,
    tag: Arc<str>,
    since: Timestamp,
    max_ttl: Duration,
    /// Since when enough nodes that vote name it and each other.
    known_to_voters: Option<Timestamp>,
    /// Since when it and others that forgot along with it make up a quorum whose members name each
    /// other.
    known_to_starters: Option<Timestamp>,
    /// It started by itself together with others, which may vote by now.
    bootstrapped: bool,
}

const RETRY: Duration = Duration::from_millis(200);

impl Enrolment {
    /// For `nodes` nodes, and locks of at most `max_ttl`.
    pub(crate) fn new(nodes: usize, max_ttl: Duration, drift_factor: f64) -> Self {
        let entry = EnrolledNode {
            status: NodeStatus::Out,
            known: NodeStatus::Out,
            out_since: Timestamp::ZERO,
            seen_starting: None,
            wait: None,
            owner: None,
            displaced_since: None,
            busy: false,
            retry_at: Timestamp::ZERO,
        };
        let nodes = vec![entry; nodes].into_boxed_slice();
        let quorum = rules::quorum(nodes.len());
        Self { quorum, max_ttl, drift_factor, nodes, old_set_seen: None }
    }

    /// Takes how a node stands, which was asked and answered at `now`.
    pub(crate) fn see(&mut self, node: usize, status: NodeStatus, now: Timestamp) {
        self.see_answer(node, status, now, now);
    }

    /// Takes how a node stands: asked at `asked`, and answered at `now`.
    pub(crate) fn see_answer(
        &mut self,
        node: usize,
        status: NodeStatus,
        asked: Timestamp,
        now: Timestamp,
    ) {
        if self.has_old_set() {
            self.old_set_seen = Some(now);
        }
        let entry = &mut self.nodes[node];
        match &status {
            NodeStatus::Probation { tag, view, max_ttl, .. } => {
                let max_ttl = self.max_ttl.max(*max_ttl);
                match &mut entry.wait {
                    Some(wait) if wait.incarnation == view.incarnation => {
                        wait.max_ttl = wait.max_ttl.max(max_ttl);
                        wait.tag = Arc::clone(tag);
                    }
                    _ => {
                        entry.wait = Some(Probation {
                            incarnation: view.incarnation,
                            tag: Arc::clone(tag),
                            since: now,
                            max_ttl,
                            known_to_voters: None,
                            known_to_starters: None,
                            bootstrapped: false,
                        });
                    }
                }
            }
            NodeStatus::Active { .. } | NodeStatus::OtherLayout => entry.wait = None,
            NodeStatus::Out => {}
        }
        if let Some(view) = status.view().filter(|_| status.starts()) {
            // It may have been activated while the answer was under way.
            entry.seen_starting = Some((view.incarnation, asked));
        }
        if status != NodeStatus::Out {
            entry.known = status.clone();
        } else if entry.status != NodeStatus::Out {
            entry.out_since = now;
        }
        entry.status = status;
        self.compare_views(node, now);
    }

    /// What the latest view says of the owners of names, and of who knows whom.
    fn compare_views(&mut self, node: usize, now: Timestamp) {
        if let Some(view) = self.nodes[node].view().cloned() {
            for (entry, owner) in self.nodes.iter_mut().zip(&view.owners) {
                entry.owner = entry.owner.max(*owner);
            }
            let entry = &mut self.nodes[node];
            entry.owner = entry.owner.max(Some(view.incarnation));
        }
        let needed = self.needed();
        for node in 0..self.nodes.len() {
            let voters = self.group_around(node, |entry| entry.known.is_active()).len() >= needed;
            let starters = self.starters(node).len() + 1 >= self.quorum;
            let entry = &mut self.nodes[node];
            let displaced = entry.is_displaced();
            since(&mut entry.displaced_since, displaced, now);
            if let Some(wait) = &mut entry.wait {
                since(&mut wait.known_to_voters, voters, now);
                since(&mut wait.known_to_starters, starters, now);
            }
        }
    }

    /// A largest group of other nodes, of those that are `wanted`, that name the node, are named by
    /// it, and name each other; the node knows of every owner that they know.
    fn group_around(&self, node: usize, wanted: impl Fn(&EnrolledNode) -> bool) -> Vec<usize> {
        let Some(view) = self.nodes[node].view() else { return Vec::new() };
        let is_near = |&(other, entry): &(usize, &EnrolledNode)| {
            let Some(of_other) = entry.view() else { return false };
            let is_behind = |third: usize| view.owners.get(third) < of_other.owners.get(third);
            let thirds = (0..self.nodes.len()).filter(|&third| third != node && third != other);
            other != node
                && wanted(entry)
                && names::name_each_other((node, view), (other, of_other))
                && !thirds.into_iter().any(is_behind)
        };
        let near = self.nodes.iter().enumerate().filter(is_near);
        let near: Vec<_> = near.map(|(other, entry)| (other, entry.view())).collect();
        names::largest_group(&near).into_iter().map(|(other, _)| other).collect()
    }

    /// The nodes that forgot along with a node, and are known to it and each other.
    fn starters(&self, node: usize) -> Vec<usize> {
        let Some(wait) = &self.nodes[node].wait else { return Vec::new() };
        self.group_around(node, |entry| entry.starts_with(wait.since))
    }

    /// How many nodes that vote have to know a node, and tell it what it forgot: each quorum of the
    /// others has one of them.
    fn needed(&self) -> usize {
        self.nodes.len() - self.quorum + 1
    }

    /// Whom a node is to be told to be the owners of the names, by index; `None` where it knows them
    /// already.
    ///
    /// A node in probation is told all that the others know; one that votes, of those that are there.
    pub(crate) fn news_for(&self, node: usize) -> Option<Box<[Option<Incarnation>]>> {
        let entry = &self.nodes[node];
        let view = entry.status.view().filter(|_| !entry.is_displaced())?;
        let is_active = entry.status.is_active();
        let mut owners: Box<[Option<Incarnation>]> = vec![None; self.nodes.len()].into();
        for (other, entry) in self.nodes.iter().enumerate() {
            if other == node || entry.is_displaced() {
                continue;
            }
            let itself = entry.status.view().map(|view| view.incarnation);
            owners[other] = owners[other].max(itself);
            let known = entry.view().filter(|_| !is_active);
            for (owner, known) in owners.iter_mut().zip(known.iter().flat_map(|view| &view.owners))
            {
                *owner = (*owner).max(*known);
            }
        }
        owners[node] = None;
        let mut known = owners.iter().zip(&view.owners);
        known.any(|(owner, known)| owner > known).then_some(owners)
    }

    /// The least epoch of a new enrolment under a node's name.
    pub(crate) fn least_epoch(&self, node: usize) -> u32 {
        self.nodes[node].owner.map_or(1, |owner| owner.epoch.saturating_add(1))
    }

    fn has_old_set(&self) -> bool {
        self.nodes.iter().any(|entry| entry.known.is_of_old_set())
    }

    /// Since when another server is known to be the owner of the node's name.
    pub(crate) fn displaced_since(&self, node: usize) -> Option<Timestamp> {
        self.nodes[node].displaced_since
    }

    /// When a node that is displaced may be enrolled anew: its name has led there for as long as a
    /// probation all the same.
    pub(crate) fn reclaimed_at(&self, node: usize) -> Option<Timestamp> {
        Some(self.nodes[node].displaced_since? + self.probation(self.max_ttl))
    }

    /// The node's incarnation, if it is to be enrolled anew although another server is the owner of
    /// its name.
    pub(crate) fn reclaims(&self, node: usize, now: Timestamp) -> Option<Incarnation> {
        let view = self.nodes[node].view()?;
        (now >= self.reclaimed_at(node)?).then_some(view.incarnation)
    }

    /// The nodes that vote, and whose votes count with those of no quorum while others' do.
    ///
    /// Of two that disagree each may count with the rest, and the next look tells which one is
    /// behind: neither is left out. Displaced nodes are told apart.
    pub(crate) fn strangers(&self) -> Vec<usize> {
        let votes = |entry: &EnrolledNode| entry.status.is_active() && !entry.is_displaced();
        let active = self.nodes.iter().enumerate().filter(|(_, entry)| votes(entry));
        let active: Vec<_> = active.map(|(node, entry)| (node, entry.view())).collect();
        let counts = |with: &[names::Member<'_>]| names::largest_group(with).len() >= self.quorum;
        let is_stranger = |node: &names::Member<'_>| {
            let near =
                active.iter().filter(|other| other.0 == node.0 || names::agree(*node, **other));
            !counts(&near.copied().collect::<Vec<_>>())
        };
        if !counts(&active) {
            return Vec::new();
        }
        active.iter().filter(|node| is_stranger(node)).map(|node| node.0).collect()
    }

    /// Whether a node belongs to another set, as far as is known. If it turns up without its data,
    /// it is that set's, or that of whoever adopted it, and not ours for the taking.
    pub(crate) fn is_elsewhere(&self, node: usize) -> bool {
        self.nodes[node].known == NodeStatus::OtherLayout
    }

    /// What is to be done now; each step is followed by [`ended`](Self::ended).
    pub(crate) fn due(&mut self, now: Timestamp) -> Vec<ActivationStep> {
        let mut steps = Vec::new();
        for node in 0..self.nodes.len() {
            let Some(at) = self.due_at(node) else { continue };
            if now < at {
                continue;
            }
            let Some(plan) = self.plan(node) else { continue };
            let entry = &mut self.nodes[node];
            let Some(wait) = &mut entry.wait else { continue };
            let begun = match plan {
                ActivationPlan::Learn { .. } => wait.known_to_voters,
                ActivationPlan::Bootstrap { .. } => wait.known_to_starters,
            };
            wait.bootstrapped |= matches!(plan, ActivationPlan::Bootstrap { .. });
            steps.push(ActivationStep {
                node,
                tag: Arc::clone(&wait.tag),
                waited: now.since(wait.since.max(begun.unwrap_or(wait.since))),
                plan,
            });
            entry.busy = true;
        }
        steps
    }

    /// When [`due`](Self::due) has something to give, unless a node is seen otherwise before.
    pub(crate) fn next_wake(&self) -> Option<Timestamp> {
        (0..self.nodes.len()).filter_map(|node| self.due_at(node)).min()
    }

    /// A step is over.
    pub(crate) fn ended(&mut self, node: usize, outcome: ActivationOutcome, now: Timestamp) {
        let entry = &mut self.nodes[node];
        entry.busy = false;
        match outcome {
            ActivationOutcome::Done => {}
            ActivationOutcome::Longer(max_ttl) => {
                if let Some(wait) = &mut entry.wait {
                    wait.max_ttl = wait.max_ttl.max(max_ttl);
                }
                entry.retry_at = now;
            }
            ActivationOutcome::Failed => entry.retry_at = now + RETRY,
            ActivationOutcome::Later(pause) => entry.retry_at = now + pause,
        }
    }

    /// Our clock was put forward by so much, at the most that it can have stood still. Probations
    /// last at least as long as they must: none of that time counts.
    pub(crate) fn put_forward(&mut self, by: Duration) {
        for entry in &mut self.nodes {
            let wait = entry.wait.iter_mut().flat_map(|wait| {
                let known = wait.known_to_voters.iter_mut().chain(&mut wait.known_to_starters);
                known.chain([&mut wait.since])
            });
            for since in wait.chain(&mut entry.displaced_since) {
                *since = *since + by;
            }
        }
        if let Some(seen) = &mut self.old_set_seen {
            *seen = *seen + by;
        }
    }

    /// For how long a node in probation does not vote yet; zero where only others are waited for.
    pub(crate) fn remaining(&self, node: usize, now: Timestamp) -> Duration {
        let wait = self.nodes[node].wait.as_ref();
        wait.map_or(Duration::ZERO, |wait| {
            let known = wait.known_to_voters.or(wait.known_to_starters);
            self.end(wait, known.unwrap_or(wait.since)).since(now)
        })
    }

    /// How many nodes vote.
    pub(crate) fn active(&self) -> usize {
        self.nodes.iter().filter(|entry| entry.status.is_active()).count()
    }

    fn due_at(&self, node: usize) -> Option<Timestamp> {
        let entry = &self.nodes[node];
        if entry.busy || !matches!(entry.status, NodeStatus::Probation { .. }) {
            return None;
        }
        let wait = entry.wait.as_ref()?;
        let end = match self.plan(node)? {
            ActivationPlan::Learn { .. } => self.end(wait, wait.known_to_voters?),
            ActivationPlan::Bootstrap { .. } if wait.bootstrapped => self.end(wait, wait.since),
            ActivationPlan::Bootstrap { .. } => {
                let together = self.quorum_end().unwrap_or(Timestamp::ZERO);
                let end = self.end(wait, wait.known_to_starters?);
                end.max(together).max(self.absence_end(node)).max(self.old_set_end())
            }
        };
        Some(end.max(entry.retry_at))
    }

    /// When the probations of a quorum are over. Those that start by themselves do so together:
    /// one that voted before the others were due would not be in probation any more, and so leave
    /// too few for them to start and too few to learn from.
    fn quorum_end(&self) -> Option<Timestamp> {
        let starting = self.nodes.iter().filter(|entry| entry.status.starts());
        let waits = starting.filter_map(|entry| entry.wait.as_ref());
        let mut ends: Vec<_> =
            waits.filter_map(|wait| Some(self.end(wait, wait.known_to_starters?))).collect();
        ends.sort_unstable();
        ends.get(self.quorum - 1).copied()
    }

    /// When those that are out of sight have been so for as long as a probation: they are not just
    /// about to come back, with what they know. At once where a node starts with so many others that
    /// no two such groups are without a common name among the others.
    fn absence_end(&self, node: usize) -> Timestamp {
        let with =
            self.group_around(node, |entry| entry.status.is_active() || entry.status.starts());
        if with.len() >= self.needed() {
            return Timestamp::ZERO;
        }
        let away = self.nodes.iter().filter(|entry| entry.status == NodeStatus::Out);
        let since = away.map(|entry| entry.out_since).max().unwrap_or(Timestamp::ZERO);
        since + self.probation(self.max_ttl)
    }

    /// When no lock of an old set is left.
    fn old_set_end(&self) -> Timestamp {
        let waits = self.nodes.iter().filter_map(|entry| entry.wait.as_ref());
        let longest = waits.map(|wait| wait.max_ttl).max().unwrap_or(self.max_ttl);
        self.old_set_seen.map_or(Timestamp::ZERO, |seen| seen + self.probation(longest))
    }

    fn end(&self, wait: &Probation, known_since: Timestamp) -> Timestamp {
        wait.since.max(known_since) + self.probation(wait.max_ttl)
    }

    fn probation(&self, max_ttl: Duration) -> Duration {
        max_ttl + rules::drift(max_ttl, self.drift_factor)
    }

    fn plan(&self, node: usize) -> Option<ActivationPlan> {
        let entry = &self.nodes[node];
        let wait = entry.wait.as_ref()?;
        // A quorum forgot at once, so the set begins anew: each of its nodes has kept, or waited
        // out, what it granted. A minority that forgot learns from the others, and waits for them:
        // the former owners of its names may live, and be a quorum with them. And an old set may
        // still be granting, out of our sight too: only `adopt` ends that.
        let there = |other: &usize| self.nodes[*other].status != NodeStatus::Out;
        let with = self.starters(node).into_iter().filter(there).count();
        let enough = with + 1 >= self.quorum && wait.known_to_starters.is_some();
        if entry.status.starts() && (wait.bootstrapped || enough) && !self.has_old_set() {
            // Who is there may know of a longer TTL, whomever it takes for the owners of names.
            let is_there =
                |other: &usize| *other != node && self.nodes[*other].status.view().is_some();
            let from = (0..self.nodes.len()).filter(is_there).collect();
            return Some(ActivationPlan::Bootstrap { from });
        }
        let needed = self.needed();
        let from = self.group_around(node, |entry| entry.status.is_active());
        let known = wait.known_to_voters.is_some() && from.len() >= needed;
        known.then_some(ActivationPlan::Learn { from, needed })
    }
}

/// Keeps since when something holds.
fn since(kept: &mut Option<Timestamp>, holds: bool, now: Timestamp) {
    if holds {
        kept.get_or_insert(now);
    } else {
        *kept = None;
    }
}

#[cfg(test)]
mod tests;

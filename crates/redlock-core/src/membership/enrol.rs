//! R6 and R14: a node that may have forgotten locks, or is new under its name, does not vote until
//! every such lock has expired and enough other nodes know it as the owner of its name.
//!
//! * *Enrol.* A node without a tag or fences, or with the client's layout and an earlier run,
//!   begins a probation under a new nonce, unless it was last seen in another set. A node that lost
//!   data, or went back to older data, has no tag or that of another incarnation. The other nodes
//!   are informed of the new incarnation.
//! * *Wait.* Each client waits `max_ttl` and the drift, by its own clock, from the later of two
//!   moments: when it first saw this enrolment, and when it first saw that the node and enough
//!   others store the same owner of every name (R14). The first client that has waited activates the node for all.
//! * *Learn.* Only then the fences of N−q+1 active others are merged by maximum: every quorum that
//!   completed a lease shares a node with them, and an earlier reading would miss later leases.
//!   Claims are merged in parts. The client also waits for the longest `max_ttl` that a node reports.
//! * *Bootstrap.* If a quorum is in probation, its nodes activate together, with what all reachable
//!   nodes know, and fences at least 60 s ahead of their clocks: no token was further ahead (R9).
//!   Fewer than N−q+1 other starters give the missing nodes one probation's time to return, as
//!   others may still reach their former servers.
//! * *New servers.* If the client [assumes](Enrolment::assume_new) it, a set starts at once
//!   if all of its nodes are in their first probation, without a record of a vote, and name each other.
//!   That is unsafe only if all of them lost their data since they last voted.
//! * *`max_ttl`* only grows by itself, once a quorum votes: every quorum that keeps a lock has a
//!   node that reports it to a probation. *Lowering* keeps the former value beside the new one
//!   (`longer`) until all earlier keys have expired by the clock of the client that lowers.
//! * *Records* of work that is done are copied after the activation; until then the node does not
//!   answer that there is none.
//!
//! Limits: a blank node belongs to the first client that sees it, and a node set back to a snapshot
//! from before an adoption to the old set. A clock that is ahead at a bootstrap puts the fences
//! ahead, and no token is granted until real time is within 60 s of them. A quorum that forgets
//! within one `max_ttl` is a new set: what was recorded only there is lost.

use std::{sync::Arc, time::Duration};

use super::node_status::{
    ActivationOutcome, ActivationPlan, ActivationStep, Copying, EnrolPlan, EnrolledNode,
    NodeStatus, Probation, since,
};
use crate::{
    protocol::{formulas, views::Incarnation},
    timestamp::Timestamp,
};

/// The probations of a set of nodes, as counted by one client.
#[derive(Clone, Debug)]
pub struct Enrolment {
    quorum: usize,
    pub(super) max_ttl: Duration,
    pub(super) drift_factor: f64,
    pub(super) nodes: Box<[EnrolledNode]>,
    /// When an old set was last known to be able to grant.
    old_set_seen: Option<Timestamp>,
    /// Whether nodes of which no record shows a vote are taken as new.
    assumes_new: bool,
}

/// Pause before the retry of a failed step.
const RETRY: Duration = Duration::from_millis(200);
/// Pause before the retry of a takeover, or of the start of a moved node.
const MOVE_RETRY: Duration = Duration::from_secs(1);
/// Number of probations for which a server must own a regained name until it counts as settled.
const SETTLED_AFTER_PROBATIONS: u32 = 16;

impl Enrolment {
    /// Creates the probations of `nodes` nodes, for locks of at most `max_ttl`.
    pub fn new(nodes: usize, max_ttl: Duration, drift_factor: f64) -> Self {
        let nodes = vec![EnrolledNode::default(); nodes].into_boxed_slice();
        let quorum = formulas::quorum(nodes.len());
        Self { quorum, max_ttl, drift_factor, nodes, old_set_seen: None, assumes_new: false }
    }

    /// Takes a set as new, without a wait, if all of its nodes are reachable, name each other, and
    /// none has a record of a vote.
    ///
    /// This is an assumption of the caller: a server that lost all its data has no such record either.
    #[must_use]
    pub fn assume_new(mut self, assumes_new: bool) -> Self {
        self.assumes_new = assumes_new;
        self
    }

    /// Records a node's status, asked for and received at `now`.
    pub fn see(&mut self, node: usize, status: NodeStatus, now: Timestamp) {
        self.see_answer(node, status, now, now);
    }

    /// Records a node's status, asked for at `asked` and received at `now`.
    pub fn see_answer(
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
                    Some(wait) if wait.incarnation == view[node] => {
                        wait.max_ttl = wait.max_ttl.max(max_ttl);
                        wait.tag = Arc::clone(tag);
                    }
                    _ => {
                        entry.wait = Some(Probation {
                            incarnation: view[node],
                            tag: Arc::clone(tag),
                            since: now,
                            max_ttl,
                            known_to_voters: None,
                            known_to_starters: None,
                            bootstrapped: false,
                            starts_new: false,
                        });
                    }
                }
            }
            NodeStatus::Active { .. } | NodeStatus::OtherLayout => entry.wait = None,
            NodeStatus::Out => {}
        }
        if let Some(view) = status.view().filter(|_| status.starts()) {
            // It may have been activated before the answer arrived.
            entry.seen_starting = Some((view[node], asked));
        }
        if status != NodeStatus::OtherLayout {
            entry.other_set = None;
        }
        if status != entry.status {
            // The record includes what the node was sent before, so missing owners may be sent at
            // once.
            entry.check_at = Timestamp::ZERO;
        }
        if status != NodeStatus::Out {
            entry.known = status.clone();
        } else if entry.status != NodeStatus::Out {
            entry.out_since = now;
        }
        entry.status = status;
        self.compare_views(node, now);
    }

    /// Updates the owners of names, and which nodes know each other, from a node's latest view.
    fn compare_views(&mut self, node: usize, now: Timestamp) {
        if let Some(view) = self.nodes[node].view().cloned() {
            for (entry, owner) in self.nodes.iter_mut().zip(view.iter()) {
                entry.owner = entry.owner.max(*owner);
            }
        }
        let needed = self.needed();
        let lasting = self.probation(self.max_ttl) * SETTLED_AFTER_PROBATIONS;
        for node in 0..self.nodes.len() {
            let voters =
                self.group_around(node, |_, entry| entry.known.is_active()).len() >= needed;
            let starters = self.starters(node).len() + 1 >= self.quorum;
            let entry = &mut self.nodes[node];
            entry.note_displaced(node, now, lasting);
            if let Some(wait) = &mut entry.wait {
                since(&mut wait.known_to_voters, voters, now);
                since(&mut wait.known_to_starters, starters, now);
            }
        }
    }

    /// Returns the other nodes that are `wanted` and have the same view as a node.
    fn group_around(
        &self,
        node: usize,
        wanted: impl Fn(usize, &EnrolledNode) -> bool,
    ) -> Vec<usize> {
        let Some(view) = self.nodes[node].view() else { return Vec::new() };
        let agrees = |&other: &usize| {
            let entry = &self.nodes[other];
            other != node && wanted(other, entry) && entry.view() == Some(view)
        };
        (0..self.nodes.len()).filter(agrees).collect()
    }

    /// Returns the nodes that forgot together with a node, and have its view.
    fn starters(&self, node: usize) -> Vec<usize> {
        let Some(wait) = &self.nodes[node].wait else { return Vec::new() };
        self.group_around(node, |other, entry| entry.starts_with(other, wait.since))
    }

    /// Returns whether all nodes are new and name each other.
    fn are_new(&self) -> bool {
        let is_new = |entry: &EnrolledNode| {
            matches!(entry.status, NodeStatus::Probation { is_new: true, moved: false, .. })
        };
        self.assumes_new
            && self.nodes.iter().all(is_new)
            && self.group_around(0, |_, _| true).len() + 1 == self.nodes.len()
    }

    /// Returns the number of voting nodes that have to name a node and teach it: every quorum of
    /// the other nodes contains one of them.
    fn needed(&self) -> usize {
        self.nodes.len() - self.quorum + 1
    }

    /// Returns the greatest known owner of a name.
    pub fn owner(&self, node: usize) -> Option<Incarnation> {
        self.nodes[node].owner
    }

    /// Returns whether a node, which owns its name, lacks a known owner of another name.
    pub fn lacks_owners(&self, node: usize) -> bool {
        let entry = &self.nodes[node];
        let view = entry.status.view().filter(|_| !entry.is_displaced(node));
        view.is_some_and(|view| {
            self.nodes.iter().zip(&**view).any(|(own, known)| own.owner != *known)
        })
    }

    /// Returns the minimum epoch of a new enrolment under a node's name.
    pub fn least_epoch(&self, node: usize) -> u32 {
        self.nodes[node].owner.map_or(1, |owner| owner.epoch.saturating_add(1))
    }

    fn has_old_set(&self) -> bool {
        self.nodes.iter().any(|entry| entry.known.is_of_old_set())
    }

    /// Returns when another server was found to own the node's name.
    pub fn displaced_since(&self, node: usize) -> Option<Timestamp> {
        self.nodes[node].displaced_since
    }

    /// Returns when a displaced node may be enrolled again: its name has led to it for a whole
    /// probation, or longer if that did not last before. Each enrolment changes the view of all
    /// nodes, so a name that leads to two servers must not be enrolled at the pace of its clients.
    pub fn reclaimed_at(&self, node: usize) -> Option<Timestamp> {
        let entry = &self.nodes[node];
        Some(entry.displaced_since? + self.probation(self.max_ttl) * (1 << entry.flaps))
    }

    /// Returns the node's incarnation if it must be enrolled again although another server owns its
    /// name.
    pub fn reclaims(&self, node: usize, now: Timestamp) -> Option<Incarnation> {
        let view = self.nodes[node].view()?;
        view[node].filter(|_| self.reclaimed_at(node).is_some_and(|at| now >= at))
    }

    /// Returns whether a node was last seen in another set. If it reappears without its data, it
    /// still belongs to that set, or to the set that adopted it.
    pub fn is_elsewhere(&self, node: usize) -> bool {
        self.nodes[node].known == NodeStatus::OtherLayout
    }

    /// Returns the steps that are due now. The caller reports the end of an activation with
    /// [`ended`](Self::ended), and the end of a copy with [`copied`](Self::copied).
    pub fn plan(&mut self, now: Timestamp) -> EnrolPlan {
        let activations = self.due(now);
        let (mut checks, mut copies) = (Vec::new(), Vec::new());
        for node in 0..self.nodes.len() {
            if self.change_at(node).is_some_and(|at| now >= at) {
                let retry = if self.lacks_owners(node) { RETRY } else { MOVE_RETRY };
                self.nodes[node].check_at = now + retry;
                checks.push(node);
            }
            let copying = &mut self.nodes[node].copying;
            if matches!(copying, Copying::Wanted(at) if now >= *at) {
                *copying = Copying::UnderWay;
                copies.push(node);
            }
        }
        EnrolPlan { activations, checks, copies, wake: self.next_wake() }
    }

    /// Returns when a node's record must change because of other nodes' records.
    fn change_at(&self, node: usize) -> Option<Timestamp> {
        let is_due = self.lacks_owners(node) || self.may_start(node);
        let at = if is_due { Timestamp::ZERO } else { self.unused_from(node)? };
        Some(at.max(self.nodes[node].check_at))
    }

    /// Records whether a node still lacks records that have to be copied to it.
    pub fn see_copying(&mut self, node: usize, is_wanted: bool, now: Timestamp) {
        let copying = &mut self.nodes[node].copying;
        match copying {
            Copying::Done if is_wanted => *copying = Copying::Wanted(now),
            Copying::Wanted(_) if !is_wanted => *copying = Copying::Done,
            _ => {}
        }
    }

    /// Records the end of a copy, and the time of the next try.
    pub fn copied(&mut self, node: usize, again: Option<Timestamp>) {
        self.nodes[node].copying = again.map_or(Copying::Done, Copying::Wanted);
    }

    /// Returns the activations due now.
    pub fn due(&mut self, now: Timestamp) -> Vec<ActivationStep> {
        if self.are_new() {
            // All of them at once: once the first one votes, the set is not new any more.
            let waits = self.nodes.iter_mut().filter_map(|entry| entry.wait.as_mut());
            waits.for_each(|wait| wait.starts_new = true);
        }
        let mut steps = Vec::new();
        for node in 0..self.nodes.len() {
            if self.due_at(node).is_none_or(|at| now < at) {
                continue;
            }
            let Some(plan) = self.activation_plan(node) else { continue };
            let entry = &mut self.nodes[node];
            let Some(wait) = &mut entry.wait else { continue };
            let begun = match plan {
                ActivationPlan::Learn { .. } => wait.known_to_voters,
                ActivationPlan::Bootstrap { .. } | ActivationPlan::New => wait.known_to_starters,
            };
            wait.bootstrapped |= matches!(plan, ActivationPlan::Bootstrap { .. });
            let waited = now.saturating_duration_since(wait.since.max(begun.unwrap_or(wait.since)));
            if plan != ActivationPlan::New {
                wait.assert_over(now);
            }
            steps.push(ActivationStep { node, tag: Arc::clone(&wait.tag), waited, plan });
            entry.busy = true;
        }
        steps
    }

    /// Returns when [`plan`](Self::plan) next returns an action, unless a status changes before.
    pub fn next_wake(&self) -> Option<Timestamp> {
        let of_node = |node: usize| {
            let copying = match self.nodes[node].copying {
                Copying::Wanted(at) => Some(at),
                Copying::Done | Copying::UnderWay => None,
            };
            self.change_at(node).into_iter().chain(copying).min()
        };
        (0..self.nodes.len()).filter_map(of_node).chain(self.next_activation()).min()
    }

    /// Returns when the next activation is due, unless a status changes before.
    pub(crate) fn next_activation(&self) -> Option<Timestamp> {
        (0..self.nodes.len()).filter_map(|node| self.due_at(node)).min()
    }

    /// Records the end of a step.
    pub fn ended(&mut self, node: usize, outcome: ActivationOutcome, now: Timestamp) {
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

    /// Excludes the time by which the local clock was put forward, at most, so that probations
    /// never end early.
    pub fn put_forward(&mut self, by: Duration) {
        for entry in &mut self.nodes {
            let wait = entry.wait.iter_mut().flat_map(|wait| {
                let known = wait.known_to_voters.iter_mut().chain(&mut wait.known_to_starters);
                known.chain([&mut wait.since])
            });
            let watched = entry.other_set.iter_mut().map(|(_, since)| since);
            for since in wait.chain(&mut entry.displaced_since).chain(watched) {
                *since = *since + by;
            }
        }
        if let Some(seen) = &mut self.old_set_seen {
            *seen = *seen + by;
        }
    }

    /// Returns the time for which a node in probation still does not vote; zero if it only waits
    /// for other nodes.
    pub fn remaining(&self, node: usize, now: Timestamp) -> Duration {
        let wait = self.nodes[node].wait.as_ref();
        wait.map_or(Duration::ZERO, |wait| {
            let known = wait.known_to_voters.or(wait.known_to_starters);
            self.end(wait, known.unwrap_or(wait.since)).saturating_duration_since(now)
        })
    }

    /// Returns whether a quorum votes.
    pub fn is_quorate(&self) -> bool {
        self.nodes.iter().filter(|entry| entry.status.is_active()).count() >= self.quorum
    }

    fn due_at(&self, node: usize) -> Option<Timestamp> {
        let entry = &self.nodes[node];
        if entry.busy || !matches!(entry.status, NodeStatus::Probation { .. }) {
            return None;
        }
        let wait = entry.wait.as_ref()?;
        let end = match self.activation_plan(node)? {
            ActivationPlan::New => wait.since,
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

    /// Returns when the probations of a quorum end. Nodes that start by themselves do so together:
    /// a node that voted earlier would leave too few others to start with, and too few to learn
    /// from.
    fn quorum_end(&self) -> Option<Timestamp> {
        let starting = self.nodes.iter().filter(|entry| entry.status.starts());
        let waits = starting.filter_map(|entry| entry.wait.as_ref());
        let mut ends: Vec<_> =
            waits.filter_map(|wait| Some(self.end(wait, wait.known_to_starters?))).collect();
        ends.sort_unstable();
        ends.get(self.quorum - 1).copied()
    }

    /// Returns when all unreachable nodes have been unreachable for a whole probation, so that none
    /// is about to return with its state. Zero if the node starts with N−q+1 others: no second group of
    /// that size can start without one of their names.
    fn absence_end(&self, node: usize) -> Timestamp {
        let with =
            self.group_around(node, |_, entry| entry.status.is_active() || entry.status.starts());
        if with.len() >= self.needed() {
            return Timestamp::ZERO;
        }
        let away = self.nodes.iter().filter(|entry| entry.status == NodeStatus::Out);
        let since = away.map(|entry| entry.out_since).max().unwrap_or(Timestamp::ZERO);
        since + self.probation(self.max_ttl)
    }

    /// Returns when the last lock of an old set has expired.
    fn old_set_end(&self) -> Timestamp {
        let waits = self.nodes.iter().filter_map(|entry| entry.wait.as_ref());
        let longest = waits.map(|wait| wait.max_ttl).max().unwrap_or(self.max_ttl);
        self.old_set_seen.map_or(Timestamp::ZERO, |seen| seen + self.probation(longest))
    }

    fn end(&self, wait: &Probation, known_since: Timestamp) -> Timestamp {
        wait.since.max(known_since) + self.probation(wait.max_ttl)
    }

    fn probation(&self, max_ttl: Duration) -> Duration {
        max_ttl + formulas::drift(max_ttl, self.drift_factor)
    }

    fn activation_plan(&self, node: usize) -> Option<ActivationPlan> {
        let entry = &self.nodes[node];
        let wait = entry.wait.as_ref()?;
        // A quorum forgot at once, so the set starts over: each of its nodes has kept, or waited
        // out, what it granted. A minority that forgot learns from the other nodes and waits for
        // them: the former owners of its names may be alive and form a quorum with them. An old set
        // may still grant even if all of its nodes are unreachable: only `adopt` ends that.
        if wait.starts_new || self.are_new() {
            return Some(ActivationPlan::New);
        }
        let there = |other: &usize| self.nodes[*other].status != NodeStatus::Out;
        let with = self.starters(node).into_iter().filter(there).count();
        let enough = with + 1 >= self.quorum && wait.known_to_starters.is_some();
        if entry.status.starts() && (wait.bootstrapped || enough) && !self.has_old_set() {
            // A reachable node may know of a longer TTL, even if it names other owners.
            let is_there =
                |other: &usize| *other != node && self.nodes[*other].status.view().is_some();
            let from = (0..self.nodes.len()).filter(is_there).collect();
            return Some(ActivationPlan::Bootstrap { from });
        }
        let needed = self.needed();
        let from = self.group_around(node, |_, entry| entry.status.is_active());
        let known = wait.known_to_voters.is_some() && from.len() >= needed;
        known.then_some(ActivationPlan::Learn { from, needed })
    }
}

#[cfg(test)]
#[path = "enrol_tests.rs"]
mod tests;

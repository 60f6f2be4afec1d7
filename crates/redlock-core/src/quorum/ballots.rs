//! The ballots of all nodes: how many count together, and the verdicts that follow.

use std::{
    ops::{Index, IndexMut},
    sync::Arc,
    time::Duration,
};

use super::{
    ballot::{Ballot, ReleaseState},
    event::ReleaseVerdict,
    token_rounds::TokenRounds,
};
use crate::{
    protocol::{formulas, views},
    switches::{self, Switch},
    timestamp::Timestamp,
    vote::{Reason, VoteOutcome},
};

/// One ballot for each node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ballots {
    nodes: Box<[Ballot]>,
    pub(super) quorum: usize,
}

impl Ballots {
    pub(super) fn new(nodes: usize) -> Self {
        let quorum = formulas::quorum(nodes) - usize::from(switches::is_out(Switch::Majority));
        assert!(
            2 * quorum > nodes || switches::is_out(Switch::Majority),
            "two quorums of {quorum} of {nodes} nodes have no node in common"
        );
        Self { nodes: vec![Ballot::new(); nodes].into_boxed_slice(), quorum }
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Ballot)> {
        self.nodes.iter_mut().enumerate()
    }

    pub(super) fn count(&self, is_wanted: impl Fn(&Ballot) -> bool) -> usize {
        self.nodes.iter().filter(|ballot| is_wanted(ballot)).count()
    }

    /// R14: returns the size of the largest group of `wanted` ballots that were cast under one
    /// view.
    pub(super) fn count_agreeing(&self, wanted: impl Fn(&Ballot) -> bool) -> usize {
        let ballots = self.nodes.iter().filter(|ballot| wanted(ballot));
        views::largest_group(ballots.map(|ballot| ballot.view.as_ref())).0
    }

    /// Returns the largest number that a quorum granted and accepted.
    pub(super) fn agreed_number(&self, rounds: &TokenRounds) -> Option<u64> {
        let is_agreed =
            |round: &u8| self.count_agreeing(|ballot| ballot.has_accepted(*round)) >= self.quorum;
        rounds.started().find(is_agreed).map(|round| rounds.number(round))
    }

    /// Discounts the grants that don't agree with all others, where these prevented a quorum: an
    /// error must not report them as counted.
    pub(super) fn discount_disagreeing(&mut self) {
        let granted = || self.nodes.iter().filter(|ballot| ballot.is_granted());
        let first = granted().find_map(|ballot| ballot.view.clone());
        if granted().all(|ballot| views::agree(first.as_ref(), ballot.view.as_ref())) {
            return;
        }
        for ballot in
            self.nodes.iter_mut().filter(|ballot| ballot.is_granted() && ballot.view.is_some())
        {
            ballot.vote = Some(VoteOutcome::NotCounted(Reason::NamesDiffer));
        }
    }

    pub(super) fn votes(&self) -> Vec<VoteOutcome> {
        self.nodes.iter().map(Ballot::reported).collect()
    }

    /// Returns the votes on the renewal round that `started` then. An older grant does not answer
    /// it.
    pub(super) fn renewal_votes(&self, started: Option<Timestamp>) -> Vec<VoteOutcome> {
        let vote = |ballot: &Ballot| {
            let unanswered = ballot.is_granted() || ballot.is_pending();
            if unanswered && ballot.confirmed < started {
                VoteOutcome::NotCounted(Reason::TimedOut)
            } else {
                ballot.reported()
            }
        };
        self.nodes.iter().map(vote).collect()
    }

    /// Returns the owner that most of the refusing nodes name.
    pub(super) fn main_owner(&self) -> Option<Arc<str>> {
        let owners = || {
            self.nodes.iter().filter_map(|ballot| match &ballot.vote {
                Some(VoteOutcome::Held { owner, .. }) => Some(owner),
                _ => None,
            })
        };
        let named = |owner: &&Option<Arc<str>>| owners().filter(|other| other == owner).count();
        owners().max_by_key(named).cloned().flatten()
    }

    /// Returns the greatest number of shared leases that a node reports.
    pub(super) fn readers(&self) -> usize {
        self.nodes.iter().map(|ballot| ballot.readers).max().unwrap_or(0)
    }

    /// Returns the owner of an exclusive request that waits for shared leases, as a node reports it.
    pub(super) fn waiter(&self) -> Option<Arc<str>> {
        self.nodes.iter().find_map(|ballot| ballot.waiter.clone())
    }

    /// Returns the time until a quorum of nodes is free, if no key is renewed.
    pub(super) fn free_after(&self) -> Option<Duration> {
        let mut remaining: Vec<Option<Duration>> = self
            .nodes
            .iter()
            .filter_map(|ballot| match ballot.vote {
                Some(VoteOutcome::Held { remaining, .. }) => Some(remaining),
                _ => None,
            })
            .collect();
        remaining.sort_unstable_by_key(|left| left.unwrap_or(Duration::MAX));
        // A node whose vote does not count is not free.
        let free = self.count(|ballot| ballot.is_granted() || ballot.is_pending());
        match self.quorum.checked_sub(free + 1) {
            Some(last_to_expire) => remaining.get(last_to_expire).copied().flatten(),
            None => Some(Duration::ZERO),
        }
    }

    /// Returns the latest start since which a quorum under one view has confirmed the key.
    pub(super) fn confirmed_by_quorum(&self) -> Option<Timestamp> {
        let mut confirmed: Vec<_> = self.nodes.iter().filter_map(|b| b.confirmed).collect();
        confirmed.sort_unstable();
        let latest = confirmed.len().checked_sub(self.quorum)?;
        confirmed[..=latest].iter().rev().copied().find(|&started| {
            self.count_agreeing(|ballot| ballot.confirmed >= Some(started)) >= self.quorum
        })
    }

    /// Returns the number of nodes.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the verdict on a release, once it is certain or `late`.
    pub(super) fn release_verdict(&self, late: bool) -> Option<ReleaseVerdict> {
        let count = |state: ReleaseState| self.count(|ballot| ballot.release == state);
        if count(ReleaseState::Acknowledged { existed: true }) >= self.quorum {
            Some(ReleaseVerdict::Released)
        } else if count(ReleaseState::Acknowledged { existed: false })
            > self.nodes.len() - self.quorum
        {
            Some(ReleaseVerdict::AlreadyLost)
        } else if late || count(ReleaseState::Sent) == 0 {
            let votes = self.nodes.iter().map(Ballot::acknowledgement).collect();
            Some(ReleaseVerdict::NoQuorum { votes })
        } else {
            None
        }
    }
}

impl Index<usize> for Ballots {
    type Output = Ballot;

    fn index(&self, node: usize) -> &Ballot {
        &self.nodes[node]
    }
}

impl IndexMut<usize> for Ballots {
    fn index_mut(&mut self, node: usize) -> &mut Ballot {
        &mut self.nodes[node]
    }
}

use std::{sync::Arc, time::Duration};

use crate::{
    error::{Reason, VoteOutcome},
    protocol::names::{self, Member, View},
    time::Timestamp,
};

/// What one node said to this lease, and what it may keep for it.
#[derive(Clone, Debug)]
pub(super) struct Ballot {
    /// The node's latest word on whose the key is; `None` until it answers.
    pub(super) vote: Option<VoteOutcome>,
    /// The start of the latest request by which the node set the key's TTL.
    pub(super) confirmed: Option<Timestamp>,
    /// The view under which the node granted or confirmed last.
    pub(super) view: Option<Arc<View>>,
    /// The most by which the node's clock can have jumped since it confirmed that.
    pub(super) jumped: Duration,
    /// Which numbers the node accepted: bit 0 the proposal, bit r the r-th raise.
    pub(super) accepted: u8,
    /// Which raises the node was asked for.
    pub(super) asked: u8,
    /// Which of them it may still answer.
    pub(super) raising: u8,
    /// The node's fence is far ahead of the proposal.
    pub(super) far: bool,
    /// Why the node did not answer a raise.
    pub(super) raise_error: Option<Reason>,
    /// Whether the node may keep a key of ours.
    pub(super) may_hold: bool,
    /// The start of the latest extension that was sent: it may store the key whatever the node
    /// says to what was sent before.
    pub(super) extended: Option<Timestamp>,
    pub(super) release: Release,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Release {
    NotSent,
    Sent,
    Acknowledged { existed: bool },
    Failed(Reason),
}

impl Ballot {
    pub(super) fn new() -> Self {
        Self {
            vote: None,
            confirmed: None,
            view: None,
            jumped: Duration::ZERO,
            accepted: 0,
            asked: 0,
            raising: 0,
            far: false,
            raise_error: None,
            may_hold: true,
            extended: None,
            release: Release::NotSent,
        }
    }

    /// The node set the key's TTL, as it was asked at `started`; false if it has confirmed a later
    /// request.
    pub(super) fn confirm(&mut self, started: Timestamp) -> bool {
        let is_latest = self.confirmed <= Some(started);
        if is_latest {
            self.confirmed = Some(started);
            self.jumped = Duration::ZERO;
        }
        is_latest
    }

    /// The node said to the acquire (`None`), or to the extension started then, that it keeps no
    /// key of ours. That is its last word only if nothing was sent since.
    pub(super) fn rule_out(&mut self, answered: Option<Timestamp>) {
        if self.extended <= answered {
            self.may_hold = false;
        }
    }

    pub(super) fn is_granted(&self) -> bool {
        self.vote == Some(VoteOutcome::Granted)
    }

    pub(super) fn is_held(&self) -> bool {
        matches!(self.vote, Some(VoteOutcome::Held { .. }))
    }

    pub(super) fn is_pending(&self) -> bool {
        self.vote.is_none()
    }

    /// The vote as it is shown to people.
    pub(super) fn shown(&self) -> VoteOutcome {
        self.vote.clone().unwrap_or(VoteOutcome::NotCounted(Reason::NotAwaited))
    }
}

pub(super) fn count(ballots: &[Ballot], what: impl Fn(&Ballot) -> bool) -> usize {
    ballots.iter().filter(|ballot| what(ballot)).count()
}

/// The ballots that are `wanted`, with the views under which they were cast.
fn members(ballots: &[Ballot], wanted: impl Fn(&Ballot) -> bool) -> Vec<Member<'_>> {
    let members = ballots.iter().enumerate().filter(|(_, ballot)| wanted(ballot));
    members.map(|(node, ballot)| (node, ballot.view.as_ref())).collect()
}

/// R14: how many of the ballots that are `wanted` count together, as their servers name each
/// other.
pub(super) fn count_together(ballots: &[Ballot], wanted: impl Fn(&Ballot) -> bool) -> usize {
    let all = || ballots.iter().enumerate().filter(|(_, ballot)| wanted(ballot));
    let agree = |(a, of_a): (usize, &Ballot), (b, of_b): (usize, &Ballot)| {
        names::agree((a, of_a.view.as_ref()), (b, of_b.view.as_ref()))
    };
    // Nearly always all of them do, and that is found without memory of its own.
    if all().all(|one| all().take_while(|other| other.0 < one.0).all(|other| agree(one, other))) {
        return all().count();
    }
    names::largest_group(&members(ballots, wanted)).len()
}

/// Marks the grants that don't count with all others, where that is why there is no quorum: so
/// nobody is told that they counted.
pub(super) fn rule_out_strangers(ballots: &mut [Ballot]) {
    let granted = members(ballots, Ballot::is_granted);
    let disagrees = |one: &&Member<'_>| granted.iter().any(|other| !names::agree(**one, *other));
    let strangers: Vec<_> = granted.iter().filter(disagrees).map(|member| member.0).collect();
    for node in strangers {
        ballots[node].vote = Some(VoteOutcome::NotCounted(Reason::NamesDiffer));
    }
}

pub(super) fn shown(ballots: &[Ballot]) -> Vec<VoteOutcome> {
    ballots.iter().map(Ballot::shown).collect()
}

/// The owner that most of the nodes that said "held" name.
pub(super) fn main_owner(ballots: &[Ballot]) -> Option<Arc<str>> {
    let owners = || {
        ballots.iter().filter_map(|ballot| match &ballot.vote {
            Some(VoteOutcome::Held { owner, .. }) => Some(owner),
            _ => None,
        })
    };
    owners().max_by_key(|owner| owners().filter(|other| other == owner).count()).cloned().flatten()
}

//! Moves nodes from one layout to another. The old layout loses its quorum before the new one gains
//! one.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;

use super::{
    NodeReport, NodeSet,
    learnt_state::LearntState,
    record::{self, Entering, TagState},
};
use crate::{
    error::{AdoptError, Reason, SetNumber, Vote, VoteOutcome, Votes},
    membership::other_sets::{self, blocking},
    protocol::formulas,
};

/// A move of the nodes of one set into the layout of another.
pub(crate) struct Adoption<'a> {
    new: &'a NodeSet,
    old: &'a NodeSet,
}

impl<'a> Adoption<'a> {
    /// Plans the move. Changes nothing.
    pub(crate) fn plan(new: &'a NodeSet, old: &'a NodeSet) -> Result<Self, AdoptError> {
        if new.is_unguarded() || old.is_unguarded() {
            return Err(AdoptError::NotGuarded);
        }
        if new.layout.hash == old.layout.hash {
            return Err(AdoptError::SameLayout);
        }
        Ok(Self { new, old })
    }

    /// Checks, by their records, that enough nodes can be moved. Changes nothing.
    pub(crate) async fn check(&self, set: SetNumber) -> Result<(), AdoptError> {
        let nodes = self.old.members().len();
        for (of, is_new, needed) in [
            (self.old, false, blocking(nodes)),
            (self.new, true, formulas::quorum(self.new.members().len())),
        ] {
            let votes = self.movable(of).await;
            let is_movable = |vote: &&Vote| vote.outcome == VoteOutcome::Granted;
            if votes.iter().filter(is_movable).count() < needed {
                return Err(AdoptError::NotMovable { set, is_new, needed, votes });
            }
        }
        Ok(())
    }

    /// Returns which nodes of a set can be read, and belong to no third set.
    async fn movable(&self, of: &NodeSet) -> Votes {
        let votes = of.members().iter().enumerate().map(async |(node, member)| {
            let outcome = match of.read(node).await {
                Ok(report) if self.is_foreign(&report) => {
                    VoteOutcome::NotCounted(foreign(report, self.new))
                }
                Ok(_) => VoteOutcome::Granted,
                Err(reason) => VoteOutcome::NotCounted(reason),
            };
            Vote::new(Arc::clone(member.status.name()), outcome)
        });
        Votes::new(join_all(votes).await)
    }

    fn is_foreign(&self, report: &NodeReport) -> bool {
        ![&*self.old.layout.hash, &self.new.layout.hash, ""].contains(&report.tag.layout())
    }

    /// Moves the nodes. Returns the length of the probation.
    pub(crate) async fn run(self) -> Result<Duration, AdoptError> {
        let (known, moved) = self.leave().await?;
        self.enter(known, &moved).await
    }

    /// Stops the old set: moves its reachable nodes into the new layout. Returns what they know, and which
    /// were moved.
    async fn leave(&self) -> Result<(LearntState, Vec<Arc<str>>), AdoptError> {
        let Self { new, old } = *self;
        let old_layout = &*old.layout.hash;
        let old_nodes = old.members().len();
        let mut moved = Vec::new();
        let mut left = vec![None; old_nodes];
        let mut failed = vec![None; old_nodes];
        let mut known = LearntState { max_ttl: old.settings.max_ttl, ..LearntState::default() };
        // The nodes are moved one by one. If the first moves fail, the old set stays as it was.
        for node in 0..old_nodes {
            let name = Arc::clone(old.members()[node].status.name());
            match take(old, node, TagState::Moved, old_layout, new, &LearntState::default()).await {
                Ok(mut told) => {
                    let left_old = told.left.take().filter(|(from, _)| **from == *old_layout);
                    left[node] = left_old.map(|(_, view)| view).filter(|view| !view.is_empty());
                    known.merge(told);
                    moved.push(name);
                }
                Err(reason) => failed[node] = Some(reason),
            }
        }
        if !other_sets::is_stopped(&left, moved.len()) {
            let votes = old_votes(old, &left, failed);
            return Err(AdoptError::OldSet { needed: blocking(old_nodes), votes });
        }
        Ok((known, moved))
    }

    /// Enrols all nodes of the new set, the moved ones included: every probation begins after the last relevant
    /// old node was moved, and all nodes learn the fences.
    async fn enter(&self, known: LearntState, moved: &[Arc<str>]) -> Result<Duration, AdoptError> {
        let Self { new, old } = *self;
        let mut votes = Vec::new();
        let mut enrolled = 0;
        // A node that stays in the moved state keeps the new set from starting.
        let mut left_behind = false;
        let nodes = new.members().len();
        for node in 0..nodes {
            let name = Arc::clone(new.members()[node].status.name());
            let outcome =
                match take(new, node, TagState::Probation, &old.layout.hash, new, &known).await {
                    Ok(_) => {
                        enrolled += 1;
                        VoteOutcome::Granted
                    }
                    Err(reason) => {
                        left_behind |= moved.contains(&name);
                        VoteOutcome::NotCounted(reason)
                    }
                };
            votes.push(Vote::new(name, outcome));
        }
        let needed = formulas::quorum(nodes);
        if enrolled < needed || left_behind {
            return Err(AdoptError::NewSet { needed, votes: Votes::new(votes) });
        }
        let max_ttl = known.max_ttl.max(new.settings.max_ttl);
        Ok(max_ttl + formulas::drift(max_ttl, new.settings.drift_factor))
    }
}

/// Returns why a node of a third set is not moved.
fn foreign(report: NodeReport, new: &NodeSet) -> Reason {
    Reason::OtherLayout { found: report.layout, ours: Arc::clone(&new.layout.description) }
}

/// Returns the outcome of each old node. Nodes count if they voted under one view.
fn old_votes(old: &NodeSet, left: &[Option<String>], failed: Vec<Option<Reason>>) -> Votes {
    let group = other_sets::largest_group(left);
    let votes = failed.into_iter().enumerate().map(|(node, failed)| {
        let outcome = match (failed, &left[node]) {
            (Some(reason), _) => VoteOutcome::NotCounted(reason),
            (None, _) if group.contains(&node) => VoteOutcome::Granted,
            (None, Some(_)) => VoteOutcome::NotCounted(Reason::NamesDiffer),
            (None, None) => {
                VoteOutcome::NotCounted(Reason::Probation { remaining: Duration::ZERO })
            }
        };
        Vote::new(Arc::clone(old.members()[node].status.name()), outcome)
    });
    Votes::new(votes)
}

/// Number of attempts to move a node whose record other clients change at the same time.
const ATTEMPTS: usize = 5;

/// Moves a node, connected through `through`, from the old layout to the new one, and stores the
/// `known` state on it. Returns the node's state afterwards; the node grants no more locks in the
/// old layout.
pub(super) async fn take(
    through: &NodeSet,
    node: usize,
    state: TagState,
    old_layout: &str,
    new: &NodeSet,
    known: &LearntState,
) -> Result<LearntState, Reason> {
    let itself = through.members()[node].status.name();
    let mut others: Vec<_> = new.members().iter().map(|member| member.status.name()).collect();
    others.retain(|name| *name != itself);
    others.sort_unstable();
    let entering = Entering {
        layout: &new.layout,
        others: others.iter().map(|name| &***name).collect(),
        max_ttl: known.max_ttl.max(new.settings.max_ttl),
        known,
        state,
    };
    for _ in 0..ATTEMPTS {
        let latest = through.latest_tag(node);
        let report = through.read(node).await?;
        let layout = report.tag.layout();
        if ![old_layout, &new.layout.hash, ""].contains(&layout) {
            return Err(foreign(report, new));
        }
        let mut change = record::moving(&report, 0, &entering);
        change.may_have_had(&latest);
        if through.change(node, &change).await? {
            return Ok(through.meta(node).await?.1);
        }
    }
    Err(Reason::Busy)
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{FakeServer, Scripted, report, served},
        *,
    };
    use crate::node::redis::RestartGuard;

    async fn adopt(new: &NodeSet, old: &NodeSet) -> Result<Duration, AdoptError> {
        Adoption::plan(new, old)?.run().await
    }

    /// A node that votes in a set and has these additional fields.
    fn member(set: &NodeSet, run: u128, fields: &[(&str, &str)]) -> FakeServer {
        let tag = report(set, 'a', run, 1).tag;
        FakeServer::new(
            run,
            &[&[("tag", &**tag.text()), ("max_ttl", "10000")][..], fields].concat(),
        )
    }

    /// Adopts the old set's servers, of which the new set has the first ones.
    async fn adopted(
        old: &mut [FakeServer],
        new: &mut [FakeServer],
        sets: &mut [Scripted; 2],
    ) -> Result<Duration, AdoptError> {
        let [of_old, of_new] = sets;
        let (old_set, new_set) = (Arc::clone(&of_old.set), Arc::clone(&of_new.set));
        let work = adopt(&new_set, &old_set);
        served(&mut of_new.nodes, new, served(&mut of_old.nodes, old, work)).await
    }

    fn outcomes(votes: &Votes) -> Vec<VoteOutcome> {
        votes.iter().map(|vote| vote.outcome.clone()).collect()
    }

    #[tokio::test]
    async fn node_left_behind_fails_the_adoption() {
        let mut sets = [Scripted::new("old"), Scripted::new("p")];
        let mut old = [1, 2, 3].map(|run| member(&sets[0].set, run, &[]));
        let mut new = [1, 2, 3].map(|run| FakeServer::new(run, &[]));
        new[1] = FakeServer::down();
        let adopted = adopted(&mut old, &mut new, &mut sets).await;
        let Err(AdoptError::NewSet { needed: 2, votes }) = adopted else { panic!("{adopted:?}") };
        let failed = VoteOutcome::NotCounted(Reason::Disconnected);
        assert_eq!(outcomes(&votes), [VoteOutcome::Granted, failed, VoteOutcome::Granted]);
    }

    #[tokio::test]
    async fn outcomes_say_how_nodes_left() {
        let mut sets = [Scripted::new("old"), Scripted::new("p")];
        let set = &sets[0].set;
        // The second node has another server as the owner of the first node's name.
        let mut second = member(set, 2, &[]);
        let tag = second.field("tag").replace("0000000000000007-", "0000000000000009-");
        second.fields.insert("tag".into(), tag);
        let mut old = [member(set, 1, &[]), second, FakeServer::down()];
        let mut new = [1, 2, 3].map(|run| FakeServer::new(run, &[]));

        let adopted = adopted(&mut old, &mut new, &mut sets).await;

        let Err(AdoptError::OldSet { needed: 2, votes }) = adopted else { panic!("{adopted:?}") };

        let outcomes = outcomes(&votes);
        let refused = VoteOutcome::NotCounted;
        let names_differ = refused(Reason::NamesDiffer);
        assert!(
            outcomes[..2].contains(&VoteOutcome::Granted) && outcomes[..2].contains(&names_differ),
            "{outcomes:?}"
        );
        assert_eq!(outcomes[2], refused(Reason::Disconnected));
    }

    #[tokio::test]
    async fn adopted_set_waits_for_longer_limit() {
        let mut sets = [Scripted::new("old"), Scripted::new("p")];
        let set = &sets[0].set;
        let mut first = member(set, 1, &[("longer", "20000 7")]);
        first.fences.insert(7, 70);
        let mut old = [first, member(set, 2, &[]), FakeServer::down()];
        // One node of the new set is unreachable.
        let mut new = [FakeServer::new(1, &[]), FakeServer::new(2, &[]), FakeServer::down()];

        let adopted = adopted(&mut old, &mut new, &mut sets).await;

        assert_eq!(adopted, Ok(Duration::from_millis(20_000 + 200 + 2)));
        assert!(old[0].field("tag").starts_with("m ") && new[0].field("tag").starts_with("p "));
        assert_eq!(old[0].field("left"), "0000000000000007");
        for server in &new[..2] {
            assert_eq!((server.field("max_ttl"), server.fences[&7]), ("20000", 70));
        }
    }

    #[tokio::test]
    async fn unguarded_sets_are_not_adopted() {
        let off = Scripted::with("off", RestartGuard::Off).set;
        let on = Scripted::new("p").set;
        for (new, old) in [(&off, &on), (&on, &off)] {
            assert_eq!(adopt(new, old).await, Err(AdoptError::NotGuarded));
        }
        assert_eq!(adopt(&on, &on).await, Err(AdoptError::SameLayout));
    }
}

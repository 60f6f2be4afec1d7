//! Moves nodes from one layout to another: the old layout loses its quorum before the new one gains
//! one.

use std::{sync::Arc, time::Duration};

use super::{NodeSet, activate::LearntState, node_report::millis};
use crate::{
    error::{AdoptError, Reason, Vote, VoteOutcome, Votes},
    membership::{
        leaving::{self, Departure},
        takeover::{ForeignSet, blocking},
    },
    node::redis::{
        decode::{int, list, text},
        scripts,
    },
    protocol::formulas,
    stripe::STRIPES,
};

/// Moves the reachable nodes of `old` into the layout of `new`, then enrols every node of `new`
/// with the fences of the old ones. They vote after a probation.
///
/// Returns the length of the probation.
pub(crate) async fn adopt(new: &NodeSet, old: &NodeSet) -> Result<Duration, AdoptError> {
    if new.is_unguarded() || old.is_unguarded() {
        return Err(AdoptError::NotGuarded);
    }
    if new.layout.hash == old.layout.hash {
        return Err(AdoptError::SameLayout);
    }
    let old_nodes = old.members().len();
    let mut moved = Vec::new();
    let mut left = vec![None; old_nodes];
    let mut failed = vec![None; old_nodes];
    let mut known = LearntState { max_ttl: old.settings.max_ttl, ..LearntState::default() };
    // One by one: if the first ones fail, the old set stays as it was.
    for node in 0..old_nodes {
        let name = Arc::clone(old.members()[node].status.name());
        let leaving = MoveConditions::set(old);
        match take(old, node, MoveState::Moved, &leaving, new, &LearntState::default()).await {
            Ok(mut told) => {
                left[node] = told.left.take().filter(|(from, _)| *from == *old.layout.hash);
                known.merge(told);
                moved.push(name);
            }
            Err(reason) => failed[node] = Some(reason),
        }
    }
    let left: Vec<_> = left.into_iter().map(|left| Departure::parse(&left?.1)).collect();
    if !leaving::is_stopped(&left, moved.len()) {
        let votes = old_votes(old, &left, failed);
        return Err(AdoptError::OldSet { needed: blocking(old_nodes), votes });
    }
    // All nodes, moved ones included: every probation begins after the last relevant old node was
    // moved, and all learn the fences.
    let mut votes = Vec::new();
    let mut enrolled = 0;
    // A node that stays moved keeps the new set from starting.
    let mut left_behind = false;
    let nodes = new.members().len();
    for node in 0..nodes {
        let name = Arc::clone(new.members()[node].status.name());
        let leaving = MoveConditions::set(old);
        let outcome = match take(new, node, MoveState::Probation, &leaving, new, &known).await {
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

/// Returns the outcome of each old node: those count that voted under one view.
fn old_votes(old: &NodeSet, left: &[Option<Departure>], failed: Vec<Option<Reason>>) -> Votes {
    let group = leaving::group(left);
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

/// The state of a moved node.
#[derive(Clone, Copy, Debug)]
pub(super) enum MoveState {
    /// The old set may still grant: the node must not form a majority with blank nodes of the new
    /// set.
    Moved,
    Probation,
}

impl MoveState {
    const fn letter(self) -> &'static str {
        match self {
            Self::Moved => "m",
            Self::Probation => "p",
        }
    }
}

/// Conditions for moving a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MoveConditions<'a> {
    /// The layout that it may leave, besides the one that it enters.
    pub(super) layout: &'a str,
    /// Number of nodes of that set, if clients may start the moved node once enough were moved;
    /// zero if only the command may.
    pub(super) size: usize,
    /// Its tag; empty for any.
    pub(super) tag: &'a str,
    /// The mark that clients of its set change; empty for any.
    pub(super) seen: &'a str,
}

impl<'a> MoveConditions<'a> {
    fn set(old: &'a NodeSet) -> Self {
        Self { layout: &old.layout.hash, ..Self::default() }
    }
}

/// Moves a node, reached through `through`, from the old layout to the new one, and stores what is
/// `known` on it.
pub(super) async fn take(
    through: &NodeSet,
    node: usize,
    state: MoveState,
    leaving: &MoveConditions<'_>,
    new: &NodeSet,
    known: &LearntState,
) -> Result<LearntState, Reason> {
    let max_ttl = known.max_ttl.max(new.settings.max_ttl);
    let mut call = through.call(node, scripts::ADOPT);
    call.arg(leaving.layout)
        .arg(&*new.layout.hash)
        .arg(&*new.layout.description)
        .arg(format!("{:016x}", crate::random::number()))
        .arg(millis(max_ttl))
        .arg(STRIPES)
        .arg(state.letter())
        .arg(leaving.tag)
        .arg(leaving.seen)
        .arg(leaving.size);
    let itself = through.members()[node].status.name();
    let mut others: Vec<_> = new.members().iter().map(|member| member.status.name()).collect();
    others.retain(|name| *name != itself);
    others.sort_unstable();
    call.arg(others.len());
    for name in others {
        call.arg(&**name);
    }
    for (field, fence) in &known.fences {
        call.arg(field).arg(*fence);
    }
    call.arg("floor").arg(known.floor);
    let items = list(through.ask_with_info(node, call).await?)?;
    match items.first().and_then(int) {
        Some(1) => Ok(items.get(3).map(|meta| LearntState::of_meta(meta).1).unwrap_or_default()),
        Some(3) => Err(Reason::WrongTag { found: items.get(1).map(text).unwrap_or_default() }),
        _ => Err(Reason::OtherLayout {
            found: items.get(2).map(text).unwrap_or_default(),
            ours: Arc::clone(&new.layout.description),
        }),
    }
}

/// Moves an unused node, if no client of its set has checked it meanwhile. It starts once enough
/// nodes of that set were moved.
pub(super) async fn take_unused(
    set: &NodeSet,
    node: usize,
    foreign: &ForeignSet,
) -> Result<(), Reason> {
    let leaving = MoveConditions {
        layout: &foreign.layout,
        size: foreign.size,
        seen: &foreign.seen,
        ..MoveConditions::default()
    };
    take(set, node, MoveState::Moved, &leaving, set, &LearntState::default()).await?;
    crate::log::warn!(
        node = %set.members()[node].status.name(),
        nodes = foreign.size,
        "the node belonged to another set of nodes, which nobody uses any more; it was taken over"
    );
    Ok(())
}

/// Begins the probation of a moved node whose old set has lost its quorum.
pub(super) async fn start_moved(set: &NodeSet, node: usize, tag: &str) -> Result<(), Reason> {
    let leaving = MoveConditions { tag, ..MoveConditions::default() };
    take(set, node, MoveState::Probation, &leaving, set, &LearntState::default()).await.map(drop)
}

#[cfg(test)]
mod tests {
    use ::redis::Value;

    use super::{
        super::tests::{Scripted, Sent, text},
        *,
    };
    use crate::node::redis::RestartGuard;

    fn foreign() -> ForeignSet {
        ForeignSet {
            layout: "fedcba9876543210".into(),
            size: 5,
            seen: "77".into(),
            max_ttl: Duration::from_secs(3),
        }
    }

    /// The arguments of a move behind its key: layouts, description, nonce, limits, state, tag, mark, size
    /// and the other names.
    fn conditions(sent: &Sent) -> (&str, [&str; 6], &[String]) {
        let [one, key, leaving, entering, _, nonce, max_ttl, _, state, tag, seen, size, ..] =
            &sent[..]
        else {
            panic!("{sent:?}")
        };
        assert_eq!((&**one, nonce.len()), ("1", 16));
        assert!(key.ends_with(":meta") && ["10000", "20000"].contains(&&**max_ttl), "{sent:?}");
        (entering, [leaving, state, tag, seen, size, &sent[12]], &sent[13..])
    }

    #[tokio::test]
    async fn unused_nodes_leave_as_seen() {
        let Scripted { set, mut nodes, .. } = Scripted::new("p");
        let (foreign, moved) =
            (foreign(), vec![Value::Int(1), text(""), Value::Int(0), Value::Array(vec![])]);
        let (taken, sent) = tokio::join!(take_unused(&set, 1, &foreign), nodes[1].answer(moved));
        assert_eq!(taken, Ok(()));
        let (entering, leaving, others) = conditions(&sent);
        assert_eq!(entering, &*set.layout.hash);
        // Only if its clients have not changed the mark since.
        assert_eq!(leaving, [&*foreign.layout, "m", "", "77", "5", "2"]);
        assert_eq!(others[..2], ["a:1/0", "c:1/0"], "the names of the others");
    }

    #[tokio::test]
    async fn moved_nodes_start_under_their_tag() {
        let Scripted { set, mut nodes, .. } = Scripted::new("p");
        let other = vec![Value::Int(3), text("m other")];
        let (started, sent) = tokio::join!(start_moved(&set, 0, "m tag"), nodes[0].answer(other));
        assert_eq!(started, Err(Reason::WrongTag { found: "m other".into() }));
        let (entering, leaving, _) = conditions(&sent);
        assert_eq!(entering, &*set.layout.hash);
        assert_eq!(leaving, ["", "p", "m tag", "", "0", "2"]);
    }

    /// How a node answers that it was moved, with how it left a layout.
    fn moved(old: &NodeSet, left: &str) -> Vec<Value> {
        let meta = [text("from"), text(&old.layout.hash), text("left"), text(left)];
        vec![Value::Int(1), text("m"), Value::Int(0), Value::Array(meta.into())]
    }

    #[tokio::test]
    async fn node_left_behind_fails_the_adoption() {
        let mut old = Scripted::new("old");
        let mut new = Scripted::new("p");
        let answering = async {
            for node in &mut old.nodes {
                node.answer(moved(&old.set, "*")).await;
            }
            new.nodes[0].answer(moved(&old.set, "*")).await;
            new.nodes[1].fail().await;
            new.nodes[2].answer(moved(&old.set, "*")).await;
        };
        let (adopted, ()) = tokio::join!(adopt(&new.set, &old.set), answering);
        let Err(AdoptError::NewSet { needed: 2, votes }) = adopted else { panic!("{adopted:?}") };
        let outcomes: Vec<_> = votes.iter().map(|vote| vote.outcome.clone()).collect();
        let failed = VoteOutcome::NotCounted(Reason::Disconnected);
        assert_eq!(outcomes, [VoteOutcome::Granted, failed, VoteOutcome::Granted]);
    }

    #[tokio::test]
    async fn outcomes_say_how_nodes_left() {
        let mut old = Scripted::new("old");
        let new = Scripted::new("p");
        let incarnation = |id: u32| format!("00000001 {id:032x} {id:016x}");
        let answering = async {
            old.nodes[0].answer(moved(&old.set, &incarnation(1))).await;
            // It took another server for the owner of the first one's name.
            let left = format!("{},{}", incarnation(2), incarnation(9));
            old.nodes[1].answer(moved(&old.set, &left)).await;
            old.nodes[2].fail().await;
        };
        let (adopted, ()) = tokio::join!(adopt(&new.set, &old.set), answering);
        let Err(AdoptError::OldSet { needed: 2, votes }) = adopted else { panic!("{adopted:?}") };
        let outcomes: Vec<_> = votes.iter().map(|vote| vote.outcome.clone()).collect();
        let refused = VoteOutcome::NotCounted;
        let names_differ = refused(Reason::NamesDiffer);
        assert!(
            outcomes[..2].contains(&VoteOutcome::Granted) && outcomes[..2].contains(&names_differ)
        );
        assert_eq!(outcomes[2], refused(Reason::Disconnected));
    }
    #[tokio::test]
    async fn adopted_set_waits_for_longer_limit() {
        let mut old = Scripted::new("old");
        let mut new = Scripted::new("p");
        let mut longer = moved(&old.set, "*");
        let Value::Array(meta) = &mut longer[3] else { panic!("{longer:?}") };
        meta.extend([text("max_ttl"), text("20000"), text("f7"), text("70")]);
        let answering = async {
            let leaves = old.nodes[0].answer(longer).await;
            assert_eq!(conditions(&leaves).1, [&*old.set.layout.hash, "m", "", "", "0", "2"]);
            old.nodes[1].answer(moved(&old.set, "*")).await;
            old.nodes[2].fail().await;
            // One new node is away.
            let enters = new.nodes[0].answer(moved(&old.set, "*")).await;
            assert_eq!(conditions(&enters).1, [&*old.set.layout.hash, "p", "", "", "0", "2"]);
            assert_eq!(enters[6], "20000");
            assert_eq!(enters[15..19], ["f7", "70", "floor", "0"]);
            new.nodes[1].answer(moved(&old.set, "*")).await;
            new.nodes[2].fail().await;
        };
        let (adopted, ()) = tokio::join!(adopt(&new.set, &old.set), answering);
        assert_eq!(adopted, Ok(Duration::from_millis(20_000 + 200 + 2)));
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

//! Sets and their faults, and the searches that the tests run on them.

use super::{
    faults::FaultBudget,
    rule::RulePart,
    step::{NamesStep, Violation},
    walk::NamesWalk,
    work::WorkKind,
    world::{NamesSetup, NamesWorld},
};
use crate::quorum::tests::search;

/// A set whose names move, at the maximum rate that the rule allows.
pub(crate) fn moves(names: usize) -> NamesSetup {
    NamesSetup {
        names,
        machines: 2,
        ttl: 3,
        drift: 0,
        without: None,
        faults: FaultBudget {
            moves: 3,
            blank_restarts: 1,
            restarts: 1,
            crashes: 1,
            cuts: 2,
            gains: 0,
            promotions: 0,
        },
        at_once: crate::protocol::formulas::quorum(names) - 1,
        blank: false,
        split_lookups: true,
        locks: true,
        work: None,
        changes_while_copying: false,
        is_layout: false,
        clocks_go_back: false,
        plain: false,
    }
}

/// A set whose names are resolved by Sentinels or a Cluster: replicas take the place of their
/// masters, which go on.
pub(crate) fn fails_over(names: usize) -> NamesSetup {
    let faults = FaultBudget { moves: 2, promotions: 2, ..moves(names).faults };
    NamesSetup { faults, ..moves(names) }
}

/// A set whose servers may all restart at once, and one of whose names moves before or after.
pub(crate) fn restarts(names: usize) -> NamesSetup {
    let blank_restarts = u8::try_from(names).expect("a set has few names");
    let faults = FaultBudget { moves: 1, blank_restarts, restarts: 2, ..moves(names).faults };
    NamesSetup { faults, ..moves(names) }
}

/// A set that has never been started, and one of whose names moves later.
pub(crate) fn first_start(names: usize) -> NamesSetup {
    let faults = FaultBudget { moves: 1, ..moves(names).faults };
    NamesSetup { blank: true, faults, ..moves(names) }
}

/// Returns the same set, with clocks that run at different rates. The validity stays three ticks.
pub(crate) fn drifting(setup: NamesSetup) -> NamesSetup {
    let faults = FaultBudget { gains: 4, ..setup.faults };
    NamesSetup { ttl: setup.ttl + 1, drift: 1, faults, ..setup }
}

/// Returns the same set, whose clients claim a tick under their locks.
pub(crate) fn claiming(setup: NamesSetup) -> NamesSetup {
    NamesSetup { work: Some(WorkKind::Tick), ..setup }
}

/// Returns the same set, whose clients do work with a record under their locks. Nothing is
/// bootstrapped, as a set that was may have lost records.
pub(crate) fn recording(setup: NamesSetup) -> NamesSetup {
    let faults = FaultBudget { restarts: 0, ..setup.faults };
    NamesSetup { work: Some(WorkKind::Once), faults, ..setup }
}

/// Returns the same set, where names change while servers copy records.
pub(crate) fn recording_in_turns(setup: NamesSetup) -> NamesSetup {
    let faults = FaultBudget { blank_restarts: 2, ..setup.faults };
    recording(NamesSetup { changes_while_copying: true, faults, ..setup })
}

/// A set in which nothing goes wrong but the clocks.
pub(crate) fn clocks_only(names: usize) -> NamesSetup {
    let setup = moves(names);
    drifting(NamesSetup { faults: FaultBudget::default(), ..setup })
}

/// Returns the same set, whose clients ask for locks by plain commands first.
pub(crate) fn plain(setup: NamesSetup) -> NamesSetup {
    NamesSetup { plain: true, ..setup }
}

/// Returns the same set, watched by the groups that could grant a lock instead of by locks.
pub(crate) fn by_groups(setup: NamesSetup) -> NamesSetup {
    NamesSetup { locks: false, ..setup }
}

pub(crate) fn without(part: RulePart, setup: NamesSetup) -> NamesSetup {
    NamesSetup { without: Some(part), ..setup }
}

/// Searches a set with each seed in turn. Returns the first violation, and a short trace to it.
pub(crate) fn search(setup: NamesSetup, walks: u64) -> Option<(Violation, Vec<NamesStep>)> {
    let NamesSetup { names, locks, without, .. } = setup;
    let watched = if locks { "locks" } else { "groups" };
    let label = format!("N = {names}, {watched}, without {without:?}");
    search::search::<NamesWalk>(&NamesWorld::new(setup), walks, &label)
}

/// Takes the steps, each of which must be possible. Returns the violation that they reach.
pub(crate) fn run(setup: NamesSetup, steps: &[NamesStep]) -> Option<Violation> {
    search::run(NamesWorld::new(setup), steps)
}

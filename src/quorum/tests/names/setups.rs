//! Sets and their faults, and the searches that the tests run on them.

use super::{
    faults::FaultBudget,
    rule::RulePart,
    search::{NamesSearch, shorten},
    step::{NamesStep, Violation},
    work::WorkKind,
    world::{NamesSetup, NamesWorld},
};

/// Moves that a walk chooses.
pub(crate) const MOVES: usize = 20;
/// The seeds of each search.
pub(crate) const SEEDS: [u64; 3] = [1, 2, 3];

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
        },
        at_once: crate::protocol::rules::quorum(names) - 1,
        blank: false,
        upgraded: false,
        split_lookups: true,
        locks: true,
        work: None,
        changes_while_copying: false,
        is_layout: false,
        clocks_go_back: false,
    }
}

/// A set whose servers may all restart at once, and one of whose names moves before or after.
pub(crate) fn restarts(names: usize) -> NamesSetup {
    let blank_restarts = u8::try_from(names).expect("a set has few names");
    let faults =
        FaultBudget { moves: 1, blank_restarts, restarts: 2, crashes: 1, cuts: 2, gains: 0 };
    NamesSetup { faults, ..moves(names) }
}

/// A set that has never been started, and one of whose names moves later.
pub(crate) fn first_start(names: usize) -> NamesSetup {
    let faults =
        FaultBudget { moves: 1, blank_restarts: 1, restarts: 1, crashes: 1, cuts: 2, gains: 0 };
    NamesSetup { blank: true, faults, ..moves(names) }
}

/// The same set, with clocks that run at different rates. The validity stays three ticks.
pub(crate) fn drifting(setup: NamesSetup) -> NamesSetup {
    let faults = FaultBudget { gains: 4, ..setup.faults };
    NamesSetup { ttl: setup.ttl + 1, drift: 1, faults, ..setup }
}

/// The same set, whose clients claim a tick under their locks.
pub(crate) fn claiming(setup: NamesSetup) -> NamesSetup {
    NamesSetup { work: Some(WorkKind::Tick), ..setup }
}

/// The same set, whose clients do work with a record under their locks. Nothing is bootstrapped, as
/// a set that was may have lost records.
pub(crate) fn recording(setup: NamesSetup) -> NamesSetup {
    let faults = FaultBudget { restarts: 0, ..setup.faults };
    NamesSetup { work: Some(WorkKind::Once), faults, ..setup }
}

/// The same, where names change while servers copy records.
pub(crate) fn recording_in_turns(setup: NamesSetup) -> NamesSetup {
    let faults = FaultBudget { blank_restarts: 2, ..setup.faults };
    recording(NamesSetup { changes_while_copying: true, faults, ..setup })
}

/// A set in which nothing goes wrong but the clocks.
pub(crate) fn clocks_only(names: usize) -> NamesSetup {
    let setup = moves(names);
    drifting(NamesSetup { faults: FaultBudget::default(), ..setup })
}

/// A set of an earlier version at the start, whose names move. Watched by groups, also of those that
/// grant locks to clients of that version.
pub(crate) fn upgraded(names: usize) -> NamesSetup {
    by_groups(NamesSetup { upgraded: true, ..moves(names) })
}

/// The same set, watched by the groups that could grant a lock instead of by locks.
pub(crate) fn by_groups(setup: NamesSetup) -> NamesSetup {
    NamesSetup { locks: false, ..setup }
}

pub(crate) fn without(part: RulePart, setup: NamesSetup) -> NamesSetup {
    NamesSetup { without: Some(part), ..setup }
}

/// The factor by which the environment asks for more walks.
pub(crate) fn factor() -> u64 {
    let factor = std::env::var("NAMES_WALKS").ok();
    factor.map_or(1, |factor| factor.parse().expect("NAMES_WALKS is a whole number"))
}

/// Searches with each seed in turn for `walks` walks, times the factor; returns the first violation.
pub(crate) fn search(setup: NamesSetup, walks: u64) -> Option<(Violation, Vec<NamesStep>)> {
    SEEDS.iter().find_map(|&seed| {
        let mut search = NamesSearch::new(setup, seed);
        let found = search.run(walks * factor(), MOVES);
        let trace = found.as_ref().map(|found| shorten(setup, &found.trace));
        println!(
            "N = {}, {}, without {:?}, seed {seed}: {:?} after {} walks, {} steps, {} states; \
             shortest trace: {:?} steps",
            setup.names,
            if setup.locks { "locks" } else { "groups" },
            setup.without,
            found.as_ref().map(|found| found.violation),
            search.walks,
            search.steps,
            search.outlines(),
            trace.as_ref().map(Vec::len),
        );
        Some((found?.violation, trace?))
    })
}

/// Does the steps, each of which must be possible; returns the violation that they come to.
pub(crate) fn run(setup: NamesSetup, steps: &[NamesStep]) -> Option<Violation> {
    let mut world = NamesWorld::new(setup);
    for (at, &step) in steps.iter().enumerate() {
        assert!(world.violation.is_none(), "a violation before step {at}: {step:?}");
        assert!(world.apply(step), "step {at} does nothing: {step:?}");
    }
    world.violation
}

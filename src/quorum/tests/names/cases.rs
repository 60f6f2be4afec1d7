//! Sets and their faults, and the searches that the tests run on them.

use super::{
    faults::Faults,
    rule::Part,
    search::{Search, shorten},
    step::{Step, Violation},
    work::Work,
    world::{Setup, World},
};

/// Moves that a walk chooses.
pub(super) const MOVES: usize = 20;
/// The seeds of each search.
pub(super) const SEEDS: [u64; 3] = [1, 2, 3];

/// A set whose names move: as many at once as the rule allows.
pub(super) fn moves(names: usize) -> Setup {
    Setup {
        names,
        machines: 2,
        ttl: 3,
        drift: 0,
        without: None,
        faults: Faults { moves: 3, blank_restarts: 1, restarts: 1, crashes: 1, cuts: 2, gains: 0 },
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
pub(super) fn restarts(names: usize) -> Setup {
    let blank_restarts = u8::try_from(names).expect("a set has few names");
    let faults = Faults { moves: 1, blank_restarts, restarts: 2, crashes: 1, cuts: 2, gains: 0 };
    Setup { faults, ..moves(names) }
}

/// A set that has never been started, and one of whose names moves later.
pub(super) fn first_start(names: usize) -> Setup {
    let faults = Faults { moves: 1, blank_restarts: 1, restarts: 1, crashes: 1, cuts: 2, gains: 0 };
    Setup { blank: true, faults, ..moves(names) }
}

/// The same set, with clocks that run at different rates. The validity stays three ticks.
pub(super) fn drifting(setup: Setup) -> Setup {
    let faults = Faults { gains: 4, ..setup.faults };
    Setup { ttl: setup.ttl + 1, drift: 1, faults, ..setup }
}

/// The same set, whose clients claim a tick under their locks.
pub(super) fn claiming(setup: Setup) -> Setup {
    Setup { work: Some(Work::Tick), ..setup }
}

/// The same set, whose clients do work with a record under their locks. Nothing is bootstrapped, as
/// a set that was may have lost records.
pub(super) fn recording(setup: Setup) -> Setup {
    let faults = Faults { restarts: 0, ..setup.faults };
    Setup { work: Some(Work::Once), faults, ..setup }
}

/// The same, where names change while servers copy records.
pub(super) fn recording_in_turns(setup: Setup) -> Setup {
    let faults = Faults { blank_restarts: 2, ..setup.faults };
    recording(Setup { changes_while_copying: true, faults, ..setup })
}

/// A set in which nothing goes wrong but the clocks.
pub(super) fn clocks_only(names: usize) -> Setup {
    let setup = moves(names);
    drifting(Setup { faults: Faults::default(), ..setup })
}

/// A set of an earlier version at the start, whose names move. Watched by groups, also of those that
/// grant locks to clients of that version.
pub(super) fn upgraded(names: usize) -> Setup {
    by_groups(Setup { upgraded: true, ..moves(names) })
}

/// The same set, watched by the groups that could grant a lock instead of by locks.
pub(super) fn by_groups(setup: Setup) -> Setup {
    Setup { locks: false, ..setup }
}

pub(super) fn without(part: Part, setup: Setup) -> Setup {
    Setup { without: Some(part), ..setup }
}

/// The factor by which the environment asks for more walks.
pub(super) fn factor() -> u64 {
    let factor = std::env::var("NAMES_WALKS").ok();
    factor.map_or(1, |factor| factor.parse().expect("NAMES_WALKS is a whole number"))
}

/// Searches with each seed in turn for `walks` walks, times the factor; returns the first violation.
pub(super) fn search(setup: Setup, walks: u64) -> Option<(Violation, Vec<Step>)> {
    SEEDS.iter().find_map(|&seed| {
        let mut search = Search::new(setup, seed);
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
pub(super) fn run(setup: Setup, steps: &[Step]) -> Option<Violation> {
    let mut world = World::new(setup);
    for (at, &step) in steps.iter().enumerate() {
        assert!(world.violation.is_none(), "a violation before step {at}: {step:?}");
        assert!(world.apply(step), "step {at} does nothing: {step:?}");
    }
    world.violation
}

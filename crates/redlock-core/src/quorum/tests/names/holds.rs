//! The rule as a whole: searches find no violation within its limits.

use super::{
    setups::{
        by_groups, claiming, clocks_only, drifting, fails_over, first_start, moves, plain,
        recording, recording_in_turns, restarts, search,
    },
    world::NamesSetup,
};

/// Walks of each seed: no fewer than the controls take on the same sets.
pub(crate) const WALKS: u64 = 3000;

/// Makes a test of each list of sets: no search finds a violation.
macro_rules! holds {
    ($($name:ident: $setups:expr,)+) => {$(
        #[test]
        fn $name() {
            for setup in $setups {
                if let Some((violation, trace)) = search(setup, WALKS) {
                    panic!("{violation:?} in {setup:?}:\n{trace:#?}");
                }
            }
        }
    )+};
}

/// Returns the set watched by locks, and watched by groups.
fn both(setup: NamesSetup) -> [NamesSetup; 2] {
    [setup, by_groups(setup)]
}

holds! {
    three_names_move: both(moves(3)),
    three_names_fail_over: both(fails_over(3)),
    five_names_fail_over: both(fails_over(5)),
    three_servers_restart: both(restarts(3)),
    three_servers_start: both(first_start(3)),
    four_names_move: both(moves(4)),
    four_servers_restart: both(restarts(4)),
    four_servers_start: both(first_start(4)),
    five_names_move: both(moves(5)),
    five_servers_restart: both(restarts(5)),
    five_servers_start: both(first_start(5)),
}

// Clocks run at different rates.
holds! {
    three_clocks_drift: both(clocks_only(3)),
    three_names_move_while_clocks_drift: both(drifting(moves(3))),
    three_servers_restart_while_clocks_drift: both(drifting(restarts(3))),
    five_names_move_while_clocks_drift: both(drifting(moves(5))),
}

// Clients ask for locks by plain commands first.
holds! {
    plain_votes_while_three_names_move: [plain(moves(3))],
    plain_votes_while_three_names_fail_over: [plain(fails_over(3))],
    plain_votes_while_three_servers_restart: [plain(restarts(3))],
    plain_votes_while_three_clocks_drift: [plain(drifting(moves(3)))],
    plain_votes_while_five_names_move: [plain(moves(5))],
}

// Clients claim a tick, or do work with a record, under their locks.
holds! {
    ticks_while_three_names_move: [claiming(moves(3))],
    ticks_while_three_names_fail_over: [claiming(fails_over(3))],
    ticks_while_three_servers_restart: [claiming(restarts(3))],
    ticks_while_five_names_move: [claiming(moves(5))],
    records_while_three_names_move: [recording(moves(3))],
    records_while_five_names_move: [recording(moves(5))],
    records_while_names_move_in_turns: [recording_in_turns(moves(3))],
}

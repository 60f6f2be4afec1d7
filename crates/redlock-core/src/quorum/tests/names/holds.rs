//! The rule as a whole: searches find no violation within its limits.

use super::setups::{
    by_groups, claiming, clocks_only, drifting, fails_over, first_start, moves, recording,
    recording_in_turns, restarts, search,
};
use super::world::NamesSetup;

/// Walks of each seed: no fewer than the controls take on the same sets.
pub(crate) const WALKS: u64 = 3000;

fn holds(setup: NamesSetup) {
    holds_as_watched(setup);
    holds_as_watched(by_groups(setup));
}

fn holds_as_watched(setup: NamesSetup) {
    if let Some((violation, trace)) = search(setup, WALKS) {
        panic!("{violation:?} in {setup:?}:\n{trace:#?}");
    }
}

#[test]
fn three_names_move() {
    holds(moves(3));
}

#[test]
fn three_names_fail_over() {
    holds(fails_over(3));
}

#[test]
fn five_names_fail_over() {
    holds(fails_over(5));
}

#[test]
fn three_servers_restart() {
    holds(restarts(3));
}

#[test]
fn three_servers_start() {
    holds(first_start(3));
}

#[test]
fn four_names_move() {
    holds(moves(4));
}

#[test]
fn four_servers_restart() {
    holds(restarts(4));
}

#[test]
fn four_servers_start() {
    holds(first_start(4));
}

#[test]
fn five_names_move() {
    holds(moves(5));
}

#[test]
fn five_servers_restart() {
    holds(restarts(5));
}

#[test]
fn five_servers_start() {
    holds(first_start(5));
}

mod drift {
    use super::*;

    #[test]
    fn three_clocks_drift() {
        holds(clocks_only(3));
    }

    #[test]
    fn three_names_move() {
        holds(drifting(moves(3)));
    }

    #[test]
    fn three_servers_restart() {
        holds(drifting(restarts(3)));
    }

    #[test]
    fn five_names_move() {
        holds(drifting(moves(5)));
    }
}

/// Clients ask for locks by plain commands first.
mod plain {
    use super::super::setups::plain;
    use super::*;

    #[test]
    fn three_names_move() {
        holds_as_watched(plain(moves(3)));
    }

    #[test]
    fn three_names_fail_over() {
        holds_as_watched(plain(fails_over(3)));
    }

    #[test]
    fn three_servers_restart() {
        holds_as_watched(plain(restarts(3)));
    }

    #[test]
    fn three_clocks_drift() {
        holds_as_watched(plain(drifting(moves(3))));
    }

    #[test]
    fn five_names_move() {
        holds_as_watched(plain(moves(5)));
    }
}

/// Clients claim a tick, or do work with a record, under their locks.
mod work {
    use super::*;

    #[test]
    fn ticks_while_three_names_move() {
        holds_as_watched(claiming(moves(3)));
    }

    #[test]
    fn ticks_while_three_names_fail_over() {
        holds_as_watched(claiming(fails_over(3)));
    }

    #[test]
    fn ticks_while_three_servers_restart() {
        holds_as_watched(claiming(restarts(3)));
    }

    #[test]
    fn ticks_while_five_names_move() {
        holds_as_watched(claiming(moves(5)));
    }

    #[test]
    fn records_while_three_names_move() {
        holds_as_watched(recording(moves(3)));
    }

    #[test]
    fn records_while_five_names_move() {
        holds_as_watched(recording(moves(5)));
    }

    #[test]
    fn records_while_names_move_in_turns() {
        holds_as_watched(recording_in_turns(moves(3)));
    }
}

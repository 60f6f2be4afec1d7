//! Layouts that share servers, and what goes wrong while servers are moved.

use super::state::Plan;
use crate::quorum::tests::names::{cases::moves, faults::Faults, rule::Part, world::Setup};

/// A set of three that takes on another guard: the same names under another layout.
pub(super) fn same() -> Plan {
    plan(&[&[0, 1, 2], &[0, 1, 2]])
}

/// A set of three that becomes one of five.
pub(super) fn grows() -> Plan {
    still(plan(&[&[0, 1, 2], &[0, 1, 2, 3, 4]]))
}

/// A set of five that becomes one of three.
pub(super) fn shrinks() -> Plan {
    plan(&[&[0, 1, 2, 3, 4], &[0, 1, 2]])
}

/// A set of three, one of whose servers is replaced.
pub(super) fn replaces() -> Plan {
    still(plan(&[&[0, 1, 2], &[1, 2, 3]]))
}

/// A set of three that moves to three other servers; clients of the new layout start after the command,
/// as blank servers are a majority of it.
pub(super) fn relocates() -> Plan {
    Plan { starts_late: true, ..still(plan(&[&[0, 1, 2], &[3, 4, 5]])) }
}

/// Operators of two new lists, and one that goes back.
pub(super) fn two_lists() -> Plan {
    let moves = &[(0, 1), (0, 2), (1, 0)];
    Plan { moves, ..still(plan(&[&[0, 1, 2], &[0, 1, 2], &[1, 2, 3]])) }
}

/// One name of which may move or restart meanwhile.
fn plan(layouts: &'static [&'static [usize]]) -> Plan {
    let faults = Faults { moves: 2, blank_restarts: 1, restarts: 1, crashes: 1, cuts: 2, gains: 0 };
    let setup = Setup { faults, is_layout: true, locks: false, ..moves(3) };
    Plan {
        layouts,
        moves: &[(0, 1)],
        takeover: false,
        commands: 3,
        starts_late: false,
        at_once: 1,
        setup,
    }
}

/// The same, whose names lead to the same servers all the time.
pub(super) fn still(plan: Plan) -> Plan {
    let faults = Faults { moves: 0, ..plan.setup.faults };
    Plan { setup: Setup { faults, ..plan.setup }, ..plan }
}

/// The same, where clients of each layout take over what nobody uses, and no operator moves it.
pub(super) fn taken_over(plan: Plan) -> Plan {
    Plan { takeover: true, commands: 0, ..plan }
}

/// The same, where operators move servers as well.
pub(super) fn taken_over_or_moved(plan: Plan) -> Plan {
    Plan { commands: 2, ..taken_over(plan) }
}

/// The same, watched by locks.
pub(super) fn by_locks(plan: Plan) -> Plan {
    Plan { setup: Setup { locks: true, ..plan.setup }, ..plan }
}

/// The same, watched by the tokens, where servers' clocks go back and nothing forgets.
pub(super) fn by_tokens(plan: Plan) -> Plan {
    let faults = Faults { blank_restarts: 0, ..plan.setup.faults };
    by_locks(Plan { setup: Setup { faults, clocks_go_back: true, ..plan.setup }, ..plan })
}

pub(super) fn without(part: Part, plan: Plan) -> Plan {
    Plan { setup: Setup { without: Some(part), ..plan.setup }, ..plan }
}

/// The same, with so many moves, two cuts and no other fault.
pub(super) fn quiet(moves: u8, plan: Plan) -> Plan {
    let faults = Faults { moves, cuts: 2, ..Faults::default() };
    Plan { setup: Setup { faults, ..plan.setup }, ..plan }
}

//! Layouts that share servers, and what goes wrong while servers are moved.

use super::state::LayoutPlan;
use crate::quorum::tests::names::{
    faults::FaultBudget, rule::RulePart, setups::moves, world::NamesSetup,
};

/// A set of three that takes on another guard: the same names under another layout.
pub(super) fn same() -> LayoutPlan {
    plan(&[&[0, 1, 2], &[0, 1, 2]])
}

/// A set of three that becomes one of five.
pub(super) fn grows() -> LayoutPlan {
    still(plan(&[&[0, 1, 2], &[0, 1, 2, 3, 4]]))
}

/// A set of five that becomes one of three.
pub(super) fn shrinks() -> LayoutPlan {
    plan(&[&[0, 1, 2, 3, 4], &[0, 1, 2]])
}

/// A set of three, one of whose servers is replaced.
pub(super) fn replaces() -> LayoutPlan {
    still(plan(&[&[0, 1, 2], &[1, 2, 3]]))
}

/// A set of three that moves to three other servers; clients of the new layout start after the
/// command, as blank servers are a majority of it.
pub(super) fn relocates() -> LayoutPlan {
    LayoutPlan { starts_late: true, ..still(plan(&[&[0, 1, 2], &[3, 4, 5]])) }
}

/// Operators of two new lists, and one that goes back.
pub(super) fn two_lists() -> LayoutPlan {
    let moves = &[(0, 1), (0, 2), (1, 0)];
    LayoutPlan { moves, ..still(plan(&[&[0, 1, 2], &[0, 1, 2], &[1, 2, 3]])) }
}

/// One name of which may move or restart meanwhile.
fn plan(layouts: &'static [&'static [usize]]) -> LayoutPlan {
    let faults = FaultBudget { moves: 2, ..moves(3).faults };
    let setup = NamesSetup { faults, is_layout: true, locks: false, ..moves(3) };
    LayoutPlan {
        layouts,
        moves: &[(0, 1)],
        takeover: false,
        commands: 3,
        starts_late: false,
        at_once: 1,
        setup,
    }
}

/// Returns the same plan, whose names lead to the same servers all the time.
pub(super) fn still(plan: LayoutPlan) -> LayoutPlan {
    let faults = FaultBudget { moves: 0, ..plan.setup.faults };
    LayoutPlan { setup: NamesSetup { faults, ..plan.setup }, ..plan }
}

/// Returns the plan in which clients of each layout take over unused servers, and no operator moves
/// any.
pub(super) fn taken_over(plan: LayoutPlan) -> LayoutPlan {
    LayoutPlan { takeover: true, commands: 0, ..plan }
}

/// Returns the same plan, where operators move servers as well.
pub(super) fn taken_over_or_moved(plan: LayoutPlan) -> LayoutPlan {
    LayoutPlan { commands: 2, ..taken_over(plan) }
}

/// Returns the same plan, watched by locks.
pub(super) fn by_locks(plan: LayoutPlan) -> LayoutPlan {
    LayoutPlan { setup: NamesSetup { locks: true, ..plan.setup }, ..plan }
}

/// Returns the same plan, watched by the tokens, where servers' clocks go back and nothing forgets.
pub(super) fn by_tokens(plan: LayoutPlan) -> LayoutPlan {
    let faults = FaultBudget { blank_restarts: 0, ..plan.setup.faults };
    by_locks(LayoutPlan {
        setup: NamesSetup { faults, clocks_go_back: true, ..plan.setup },
        ..plan
    })
}

pub(super) fn without(part: RulePart, plan: LayoutPlan) -> LayoutPlan {
    LayoutPlan { setup: NamesSetup { without: Some(part), ..plan.setup }, ..plan }
}

/// Returns the same plan, with so many moves, two cuts and no other fault.
pub(super) fn quiet(moves: u8, plan: LayoutPlan) -> LayoutPlan {
    let faults = FaultBudget { moves, cuts: 2, ..FaultBudget::default() };
    LayoutPlan { setup: NamesSetup { faults, ..plan.setup }, ..plan }
}

//! The rule as a whole: searches find no violation.

use super::{
    plans::{
        by_locks, by_tokens, grows, relocates, replaces, same, shrinks, still, taken_over,
        taken_over_or_moved, two_lists,
    },
    state::LayoutPlan,
    walk::search,
};

pub(super) const WALKS: u64 = 1500;

fn holds(plan: LayoutPlan) {
    if let Some((violation, trace)) = search(plan, WALKS) {
        panic!("{violation:?} in {plan:?}:\n{trace:#?}");
    }
}

#[test]
fn three_get_another_guard() {
    holds(same());
    holds(by_locks(same()));
}

#[test]
fn three_become_five() {
    holds(grows());
    holds(by_locks(grows()));
}

#[test]
fn five_become_three() {
    holds(shrinks());
    holds(by_locks(shrinks()));
}

#[test]
fn one_of_three_is_replaced() {
    holds(replaces());
    holds(by_locks(replaces()));
}

#[test]
fn three_become_three_others() {
    holds(relocates());
    holds(by_locks(relocates()));
}

#[test]
fn operators_have_different_lists() {
    holds(two_lists());
    holds(by_locks(two_lists()));
}

#[test]
fn tokens_continue() {
    holds(by_tokens(still(same())));
    holds(by_tokens(grows()));
    holds(by_tokens(relocates()));
}

#[test]
fn unused_servers_are_taken_over() {
    holds(taken_over(still(same())));
    holds(taken_over(grows()));
    holds(by_locks(taken_over(replaces())));
    holds(taken_over_or_moved(replaces()));
}

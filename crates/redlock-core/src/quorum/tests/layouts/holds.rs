//! The rule as a whole: searches find no violation.

use super::{
    plans::{
        by_locks, by_tokens, grows, relocates, replaces, same, shrinks, still, taken_over,
        taken_over_or_moved, two_lists,
    },
    walk::search,
};

pub(super) const WALKS: u64 = 1500;

/// Makes a test of each list of plans: no search finds a violation.
macro_rules! holds {
    ($($name:ident: $plans:expr,)+) => {$(
        #[test]
        fn $name() {
            for plan in $plans {
                if let Some((violation, trace)) = search(plan, WALKS) {
                    panic!("{violation:?} in {plan:?}:\n{trace:#?}");
                }
            }
        }
    )+};
}

holds! {
    three_get_another_guard: [same(), by_locks(same())],
    three_become_five: [grows(), by_locks(grows())],
    five_become_three: [shrinks(), by_locks(shrinks())],
    one_of_three_is_replaced: [replaces(), by_locks(replaces())],
    three_become_three_others: [relocates(), by_locks(relocates())],
    operators_have_different_lists: [two_lists(), by_locks(two_lists())],
    tokens_continue: [by_tokens(still(same())), by_tokens(grows()), by_tokens(relocates())],
    unused_servers_are_taken_over: [
        taken_over(still(same())),
        taken_over(grows()),
        by_locks(taken_over(replaces())),
        taken_over_or_moved(replaces()),
    ],
}

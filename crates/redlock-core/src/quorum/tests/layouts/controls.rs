//! Parts of the rule that are needed: without one the searches find a violation.

use super::{
    holds::WALKS,
    plans::{by_tokens, quiet, relocates, replaces, same, without},
    state::Layouts,
    step::LayoutStep::{In, LeaseCommand, Move, Proceed, TakeNew, TakeOld, Tick},
    walk::{run, search},
};
use crate::quorum::tests::names::{
    rule::RulePart,
    step::{
        NamesStep::{Activate, Begin, Observe, Open, Store},
        Violation,
    },
};

/// Makes a test of each part of the rule: without it, a search with this number of walks finds
/// this violation.
macro_rules! finds {
    ($($(#[$attribute:meta])* $name:ident: $part:ident, $plan:expr, $walks:expr => $found:ident,)+) => {$(
        $(#[$attribute])*
        #[test]
        fn $name() {
            let found = search(without(RulePart::$part, $plan), $walks);
            let (violation, _) = found.expect("the search finds what the part prevents");
            assert_eq!(violation, Violation::$found);
        }
    )+};
}

finds! {
    moved_server_waits: MovedProbation, relocates(), WALKS => DisjointGroups,
    enough_servers_leave: EnoughLeave, relocates(), WALKS => DisjointGroups,
    moved_server_does_not_self_start: MovedMark, quiet(0, replaces()), WALKS => DisjointGroups,
    new_layout_learns_fences: LeftFences, by_tokens(relocates()), WALKS => TokenIssuedTwice,
    #[ignore = "takes more walks: see verify/model.md"]
    set_waits_while_another_may_grant: OldSet, relocates(), 30_000 => DisjointGroups,
}

/// Name 0 moves to a blank server. The operator reaches it and server 1: they do not stop the
/// former server of name 0 and server 2, which are a majority of the old layout.
#[test]
fn blank_server_does_not_count() {
    let plan = quiet(1, same());
    let of_new = |step| In { layout: 1, step };
    let start = [
        Move { of: None, name: 0, machine: 1 },
        In { layout: 0, step: Open { client: 0, node: 0 } },
        of_new(Open { client: 0, node: 0 }),
        of_new(Open { client: 1, node: 0 }),
        LeaseCommand { operator: 0, plan: 0 },
        TakeOld { operator: 0, node: 0 },
        TakeOld { operator: 0, node: 1 },
    ];
    let begins = [
        Proceed { operator: 0 },
        TakeNew { operator: 0, node: 0 },
        TakeNew { operator: 0, node: 1 },
        of_new(Observe { client: 0, node: 0 }),
        of_new(Observe { client: 0, node: 1 }),
        of_new(Store { client: 0, into: 0, of: 1 }),
        of_new(Store { client: 0, into: 1, of: 0 }),
        of_new(Observe { client: 0, node: 0 }),
        of_new(Observe { client: 0, node: 1 }),
        Tick,
        Tick,
        Tick,
        of_new(Begin { client: 0, node: 0 }),
        of_new(Activate { client: 0 }),
        of_new(Begin { client: 0, node: 1 }),
        of_new(Activate { client: 0 }),
    ];
    let found = run(without(RulePart::Leaving, plan), &[&start[..], &begins].concat());

    assert_eq!(found, Some(Violation::DisjointGroups));

    // With the rule, the same steps are possible until the command would continue, which it can't.
    let mut layouts = Layouts::new(plan);

    assert!(start.iter().all(|&step| layouts.apply(step)));
    assert!(!layouts.apply(begins[0]), "the old layout was not stopped");
}

//! Each part of the rule is needed: without it the searches that find nothing otherwise find a
//! violation.
//!
//! The sets, seeds and numbers of walks are those of [`holds`](super::holds), or fewer walks.

use super::{
    cases::{by_groups, clocks_only, drifting, moves, search, without},
    holds::WALKS,
    rule::Part,
    world::{Setup, Step, Violation},
};

fn finds(part: Part, setup: Setup, walks: u64) -> (Violation, Vec<Step>) {
    search(without(part, setup), walks).expect("the search finds what the part prevents")
}

mod groups {
    use super::*;

    fn finds_disjoint_groups(part: Part, names: usize) {
        let (violation, _) = finds(part, by_groups(moves(names)), WALKS);
        assert_eq!(violation, Violation::DisjointGroups);
    }

    #[test]
    fn servers_name_each_other() {
        finds_disjoint_groups(Part::Views, 3);
    }

    #[test]
    fn enough_servers_witness() {
        finds_disjoint_groups(Part::EnoughWitnesses, 3);
    }

    #[test]
    fn wait_begins_with_witnesses() {
        finds_disjoint_groups(Part::Wait, 3);
    }

    #[test]
    fn minority_does_not_bootstrap() {
        finds_disjoint_groups(Part::Starters, 3);
    }

    #[test]
    #[ignore = "takes more walks: see docs/model.md"]
    fn witnesses_are_active() {
        let (violation, _) = finds(Part::ActiveWitnesses, by_groups(moves(5)), 20_000);
        assert_eq!(violation, Violation::DisjointGroups);
    }
}

mod drift {
    use super::*;

    #[test]
    fn validity_allows_for_drift() {
        let (violation, _) = finds(Part::DriftInValidity, clocks_only(3), WALKS);
        assert_eq!(violation, Violation::TwoHolders);
    }

    #[test]
    fn probation_allows_for_drift() {
        let setup = by_groups(drifting(moves(3)));
        let (violation, _) = finds(Part::WaitBeyondValidity, setup, WALKS);
        assert_eq!(violation, Violation::DisjointGroups);
    }
}

mod locks {
    use super::*;

    #[test]
    fn servers_name_each_other() {
        finds(Part::Views, moves(3), WALKS);
    }

    #[test]
    fn activated_server_learns_fences() {
        let (violation, _) = finds(Part::Fences, moves(3), WALKS);
        assert_eq!(violation, Violation::TokenIssuedTwice);
    }

    #[test]
    #[ignore = "takes more walks: see docs/model.md"]
    fn enough_servers_witness() {
        finds(Part::EnoughWitnesses, moves(3), 20_000);
    }

    #[test]
    #[ignore = "takes more walks: see docs/model.md"]
    fn wait_begins_with_witnesses() {
        finds(Part::Wait, moves(3), 60_000);
    }

    #[test]
    #[ignore = "takes more walks: see docs/model.md"]
    fn minority_does_not_bootstrap() {
        finds(Part::Starters, moves(3), 60_000);
    }

    #[test]
    #[ignore = "takes more walks: see docs/model.md"]
    fn extensions_compare_views() {
        let (violation, _) = finds(Part::ViewsOnExtensions, moves(3), 100_000);
        assert_eq!(violation, Violation::TwoHolders);
    }
}

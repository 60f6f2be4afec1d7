//! Each part of the rule is needed: without it the searches that find nothing otherwise find a
//! violation.
//!
//! The sets, seeds and numbers of walks are those of [`holds`](super::holds), or fewer walks.

use super::{
    cases::{
        by_groups, claiming, clocks_only, drifting, moves, recording, recording_in_turns, restarts,
        run, search, upgraded, without,
    },
    faults::Faults,
    holds::WALKS,
    rule::Part,
    step::{Step, Violation},
    world::{Setup, World},
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
    fn upgraded_server_refuses_old_clients() {
        let (violation, _) = finds(Part::OldVotes, upgraded(3), WALKS);
        assert_eq!(violation, Violation::DisjointGroups);
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

mod work {
    use super::*;
    use Step::{Activate, Ask, Attempt, Begin, BeginCopy, CopyFrom, EndCopy, Fence, Look, Merge};
    use Step::{Open, Release, Restart, Store, Tick, Vote, Work};

    fn finds_tick_twice(part: Part, setup: Setup, walks: u64) {
        let (violation, _) = finds(part, claiming(setup), walks);
        assert_eq!(violation, Violation::TickClaimedTwice);
    }

    fn finds_work_twice(part: Part, walks: u64) {
        let (violation, _) = finds(part, recording(moves(3)), walks);
        assert_eq!(violation, Violation::WorkDoneTwice);
    }

    #[test]
    fn claims_compare_views() {
        let faults = Faults { moves: 1, cuts: 1, ..Faults::default() };
        finds_tick_twice(Part::ViewsOnWork, Setup { faults, ..moves(3) }, WALKS);
    }

    #[test]
    fn activated_server_learns_claims() {
        finds_tick_twice(Part::Claims, moves(3), WALKS);
    }

    #[test]
    fn bootstrapped_server_burns_ticks() {
        let faults = Faults { blank_restarts: 2, ..Faults::default() };
        finds_tick_twice(Part::Burnt, Setup { faults, ..restarts(3) }, WALKS);
    }

    #[test]
    #[ignore = "takes more walks: see docs/model.md"]
    fn records_compare_views() {
        finds_work_twice(Part::ViewsOnWork, 200_000);
    }

    #[test]
    fn server_that_lacks_records_abstains() {
        finds_work_twice(Part::Copies, WALKS);
    }

    #[test]
    #[ignore = "takes more walks: see docs/model.md"]
    fn enough_servers_are_copied() {
        finds_work_twice(Part::EnoughCopies, 100_000);
    }

    /// A server in probation may stand in front of the one that keeps the record, which votes.
    #[test]
    #[ignore = "takes more walks: see docs/model.md"]
    fn servers_that_are_copied_vote() {
        let found = search(without(Part::VotingSources, recording_in_turns(moves(3))), 100_000);
        assert_eq!(found.expect("a violation").0, Violation::WorkDoneTwice);
    }

    /// Servers 0 and 1 keep the record. 0 and then 2 restart, and learn. While each is copied to, the
    /// other one lacks records too, and the connection to 1 fails: 0 and 2 are a quorum, and no new
    /// set.
    #[test]
    fn quorum_that_copies_is_no_new_set() {
        let record = [
            Attempt { client: 0 },
            Vote { client: 0, node: 0 },
            Vote { client: 0, node: 1 },
            Work { client: 0 },
            Ask { client: 0, node: 0 },
            Ask { client: 0, node: 1 },
            Ask { client: 0, node: 0 },
            Ask { client: 0, node: 1 },
            Release { client: 0, deletes: true },
        ];
        let forget = |node: usize| {
            let [one, two] = [(node + 1) % 3, (node + 2) % 3];
            [
                Restart { node, machine: 0, keeps_data: false },
                Open { client: 0, node },
                Open { client: 1, node },
                Look { client: 1, node },
                Store { client: 1, into: one, of: node },
                Store { client: 1, into: two, of: node },
                Merge { client: 1, node },
                Look { client: 1, node: one },
                Look { client: 1, node: two },
                Look { client: 1, node },
                Tick,
                Tick,
                Tick,
                Begin { client: 1, node },
                Fence { client: 1, node: one },
                Fence { client: 1, node: two },
                Activate { client: 1 },
                Look { client: 1, node },
            ]
        };
        let copy = [
            Look { client: 0, node: 2 },
            BeginCopy { client: 0, node: 0 },
            BeginCopy { client: 1, node: 2 },
            CopyFrom { client: 0, node: 2 },
            CopyFrom { client: 1, node: 0 },
        ];
        let end = [EndCopy { client: 0 }, EndCopy { client: 1 }];
        let again = [
            Attempt { client: 0 },
            Vote { client: 0, node: 0 },
            Vote { client: 0, node: 2 },
            Work { client: 0 },
            Ask { client: 0, node: 0 },
            Ask { client: 0, node: 2 },
        ];
        let rule = recording_in_turns(moves(3));
        let start = [&record[..], &forget(0), &forget(2), &copy].concat();
        let steps = [&start[..], &end, &again].concat();
        let found = run(without(Part::OwnBootstrap, rule), &steps);
        assert_eq!(found, Some(Violation::WorkDoneTwice));
        // With the rule, the copies do not end before server 1 was read.
        let mut world = World::new(rule);
        assert!(start.iter().all(|&step| world.apply(step)));
        assert!(!end.iter().any(|&step| world.apply(step)), "a copy ends");
        let read =
            [Look { client: 0, node: 1 }, CopyFrom { client: 0, node: 1 }, EndCopy { client: 0 }];
        assert!(read.iter().all(|&step| world.apply(step)));
    }
}

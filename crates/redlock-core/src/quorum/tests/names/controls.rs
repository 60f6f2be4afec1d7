//! Each part of the rule is needed: without it the searches that find nothing otherwise find a
//! violation.
//!
//! The sets, seeds and numbers of walks are those of [`holds`](super::holds), or fewer walks.

use super::{
    faults::FaultBudget,
    holds::WALKS,
    rule::RulePart,
    setups::{
        by_groups, claiming, clocks_only, drifting, fails_over, moves, recording,
        recording_in_turns, restarts, run, search, without,
    },
    step::{NamesStep, Violation},
    world::{NamesSetup, NamesWorld},
};

fn finds(part: RulePart, setup: NamesSetup, walks: u64) -> (Violation, Vec<NamesStep>) {
    search(without(part, setup), walks).expect("the search finds what the part prevents")
}

/// Name 0 leads client 0 to another server, which it activates; client 1 stays with the former one.
fn name_0_moves_for_client_0() -> impl Iterator<Item = NamesStep> + Clone {
    use NamesStep::{Activate, Begin, Fence, Look, Merge, Move, Open, Store, Tick};
    let steps = [
        Move { client: Some(0), node: 0, machine: 1 },
        Open { client: 0, node: 0 },
        Look { client: 0, node: 0 },
        Store { client: 0, into: 1, of: 0 },
        Store { client: 0, into: 2, of: 0 },
        Merge { client: 0, node: 0 },
        Look { client: 0, node: 1 },
        Look { client: 0, node: 2 },
        Look { client: 0, node: 0 },
        Tick,
        Tick,
        Tick,
        Begin { client: 0, node: 0 },
        Fence { client: 0, node: 1 },
        Fence { client: 0, node: 2 },
        Activate { client: 0 },
        // It reads the view under which the server votes.
        Look { client: 0, node: 0 },
    ];
    steps.into_iter()
}

mod groups {
    use super::*;

    fn finds_disjoint_groups(part: RulePart, names: usize) {
        let (violation, _) = finds(part, by_groups(moves(names)), WALKS);
        assert_eq!(violation, Violation::DisjointGroups);
    }

    #[test]
    fn servers_name_each_other() {
        finds_disjoint_groups(RulePart::Views, 3);
    }

    #[test]
    fn enough_servers_witness() {
        finds_disjoint_groups(RulePart::EnoughWitnesses, 3);
    }

    #[test]
    fn wait_begins_with_witnesses() {
        finds_disjoint_groups(RulePart::Wait, 3);
    }

    #[test]
    fn minority_does_not_bootstrap() {
        finds_disjoint_groups(RulePart::Starters, 3);
    }

    #[test]
    fn promoted_replica_is_enrolled_anew() {
        let (violation, _) = finds(RulePart::OwnRun, by_groups(fails_over(3)), WALKS);
        assert_eq!(violation, Violation::DisjointGroups);
    }

    #[test]
    fn failover_needs_the_wait() {
        let (violation, _) = finds(RulePart::Wait, by_groups(fails_over(3)), WALKS);
        assert_eq!(violation, Violation::DisjointGroups);
    }

    #[test]
    #[ignore = "takes more walks: see verify/model.md"]
    fn witnesses_are_active() {
        let (violation, _) = finds(RulePart::ActiveWitnesses, by_groups(moves(5)), 20_000);
        assert_eq!(violation, Violation::DisjointGroups);
    }
}

mod drift {
    use super::*;

    #[test]
    fn validity_allows_for_drift() {
        let (violation, _) = finds(RulePart::DriftInValidity, clocks_only(3), WALKS);
        assert_eq!(violation, Violation::TwoHolders);
    }

    #[test]
    fn probation_allows_for_drift() {
        let setup = by_groups(drifting(moves(3)));
        let (violation, _) = finds(RulePart::WaitBeyondValidity, setup, WALKS);
        assert_eq!(violation, Violation::DisjointGroups);
    }
}

mod locks {
    use super::*;

    #[test]
    fn servers_name_each_other() {
        finds(RulePart::Views, moves(3), WALKS);
    }

    #[test]
    fn activated_server_learns_fences() {
        let (violation, _) = finds(RulePart::Fences, moves(3), WALKS);
        assert_eq!(violation, Violation::TokenIssuedTwice);
    }

    #[test]
    #[ignore = "takes more walks: see verify/model.md"]
    fn enough_servers_witness() {
        finds(RulePart::EnoughWitnesses, moves(3), 20_000);
    }

    #[test]
    #[ignore = "takes more walks: see verify/model.md"]
    fn wait_begins_with_witnesses() {
        finds(RulePart::Wait, moves(3), 60_000);
    }

    #[test]
    #[ignore = "takes more walks: see verify/model.md"]
    fn minority_does_not_bootstrap() {
        finds(RulePart::Starters, moves(3), 60_000);
    }

    #[test]
    #[ignore = "takes more walks: see verify/model.md"]
    fn extensions_compare_views() {
        let (violation, _) = finds(RulePart::ViewsOnExtensions, moves(3), 100_000);
        assert_eq!(violation, Violation::TwoHolders);
    }
}

mod plain {
    use super::{super::setups::plain, *};

    /// Name 0 moves for client 0 alone, which takes the lock on its new server and on server 1. Client 1 knows
    /// the former views, and asks the former server of name 0, and server 2.
    #[test]
    fn second_command_decides() {
        let faults = FaultBudget { moves: 1, ..FaultBudget::default() };
        let rule = plain(NamesSetup { faults, ..moves(3) });
        let (vote, twice) = (|client, node| NamesStep::Vote { client, node }, [0, 1]);
        let votes = [(0, 0), (0, 1), (1, 0), (1, 2)];
        let votes = votes.map(|(client, node)| twice.map(|_| vote(client, node)));
        let attempts = [0, 1].map(|client| NamesStep::Attempt { client });
        let steps = name_0_moves_for_client_0().chain(attempts).chain(votes.into_iter().flatten());
        let holders = |setup: NamesSetup| {
            let mut world = NamesWorld::new(setup);
            for step in steps.clone() {
                world.apply(step);
            }
            world.holders()
        };

        assert_eq!(holders(rule), 1, "the votes of client 1 do not count");
        assert_eq!(holders(without(RulePart::SecondCommand, rule)), 2);
    }

    #[test]
    fn fences_are_named_by_the_view() {
        finds(RulePart::NamedFences, plain(moves(3)), WALKS);
    }
}

mod work {
    use super::*;
    use NamesStep::{
        Activate, Ask, Attempt, Begin, BeginCopy, CopyFrom, EndCopy, Fence, Look, Merge,
    };
    use NamesStep::{Open, Raise, RaiseVote, Release, Restart, Store, Tick, Vote, Work};

    fn finds_tick_twice(part: RulePart, setup: NamesSetup, walks: u64) {
        let (violation, _) = finds(part, claiming(setup), walks);
        assert_eq!(violation, Violation::TickClaimedTwice);
    }

    fn finds_work_twice(part: RulePart, walks: u64) {
        let (violation, _) = finds(part, recording(moves(3)), walks);
        assert_eq!(violation, Violation::WorkDoneTwice);
    }

    /// Name 0 moves for client 0 alone. Client 1 takes the lock on servers 1 and 2, and claims the
    /// tick on the former server of name 0 and on server 1; client 0 asks the others.
    #[test]
    fn claims_compare_views() {
        let faults = FaultBudget { moves: 1, ..FaultBudget::default() };
        let rule = claiming(NamesSetup { faults, ..moves(3) });
        let asks = |client: usize, nodes: [usize; 2]| {
            [nodes, nodes].concat().into_iter().map(move |node| Ask { client, node })
        };
        let first = [
            Attempt { client: 1 },
            Vote { client: 1, node: 1 },
            Vote { client: 1, node: 2 },
            Work { client: 1 },
        ];
        let second = [
            Release { client: 1, deletes: true },
            Attempt { client: 0 },
            Vote { client: 0, node: 0 },
            Vote { client: 0, node: 2 },
            Raise { client: 0 },
            RaiseVote { client: 0, node: 0 },
            RaiseVote { client: 0, node: 2 },
            Work { client: 0 },
        ];
        let claimed = name_0_moves_for_client_0().chain(first).chain(asks(1, [0, 1]));
        let steps: Vec<_> = claimed.chain(second).chain(asks(0, [0, 2])).collect();
        let found = run(without(RulePart::ViewsOnWork, rule), &steps);

        assert_eq!(found, Some(Violation::TickClaimedTwice));

        // With the rule, the first claim has no quorum.
        let mut world = NamesWorld::new(rule);
        for step in steps {
            world.apply(step);
        }

        assert_eq!(world.violation, None);
    }

    #[test]
    fn activated_server_learns_claims() {
        finds_tick_twice(RulePart::Claims, moves(3), WALKS);
    }

    #[test]
    fn bootstrapped_server_burns_ticks() {
        let faults = FaultBudget { blank_restarts: 2, ..FaultBudget::default() };
        finds_tick_twice(RulePart::Burnt, NamesSetup { faults, ..restarts(3) }, WALKS);
    }

    #[test]
    #[ignore = "takes more walks: see verify/model.md"]
    fn records_compare_views() {
        finds_work_twice(RulePart::ViewsOnWork, 200_000);
    }

    #[test]
    fn server_that_lacks_records_abstains() {
        finds_work_twice(RulePart::Copies, WALKS);
    }

    #[test]
    #[ignore = "takes more walks: see verify/model.md"]
    fn enough_servers_are_copied() {
        finds_work_twice(RulePart::EnoughCopies, 100_000);
    }

    /// A server in probation may stand in front of the one that keeps the record, which votes.
    #[test]
    #[ignore = "takes more walks: see verify/model.md"]
    fn servers_that_are_copied_vote() {
        let found = search(without(RulePart::VotingSources, recording_in_turns(moves(3))), 100_000);
        assert_eq!(found.expect("a violation").0, Violation::WorkDoneTwice);
    }

    /// Servers 0 and 1 keep the record. 0 and then 2 restart, and learn. While each is copied to,
    /// the other one lacks records too, and the connection to 1 fails: 0 and 2 are a quorum, and no
    /// new set.
    #[test]
    fn copying_quorum_is_no_new_set() {
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
        let found = run(without(RulePart::OwnBootstrap, rule), &steps);

        assert_eq!(found, Some(Violation::WorkDoneTwice));

        // With the rule, the copies do not end before server 1 was read.
        let mut world = NamesWorld::new(rule);
        assert!(start.iter().all(|&step| world.apply(step)));
        assert!(!end.iter().any(|&step| world.apply(step)), "a copy ends");
        let read =
            [Look { client: 0, node: 1 }, CopyFrom { client: 0, node: 1 }, EndCopy { client: 0 }];

        assert!(read.iter().all(|&step| world.apply(step)));
    }
}

/// A simpler rule: a server replaces an owner by compare-and-set, and stores a list of those that
/// it replaced. A server that forgot has no list, so a client that knows only the former owner of a
/// name sets it back.
mod compare_and_set {
    use super::*;
    use NamesStep::{
        Activate, Attempt, Begin, Fence, Look, Move, Open, Restart, Store, Tick, Vote,
    };

    /// Client 0 sees the first server of `node` through its probation.
    fn probation(node: usize) -> Vec<NamesStep> {
        let [one, two] = [(node + 1) % 3, (node + 2) % 3];
        let mut steps = vec![
            Open { client: 0, node },
            Look { client: 0, node },
            Store { client: 0, into: one, of: node },
            Store { client: 0, into: two, of: node },
            Store { client: 0, into: node, of: one },
            Look { client: 0, node },
            Store { client: 0, into: node, of: two },
        ];
        steps.extend([one, two, node].map(|node| Look { client: 0, node }));
        steps.extend([Tick, Tick, Tick, Begin { client: 0, node }]);
        steps.extend([one, two].map(|node| Fence { client: 0, node }));
        steps.extend([Activate { client: 0 }, Look { client: 0, node }]);
        steps
    }

    fn moves_then_forgets() -> Vec<NamesStep> {
        let moved = [Move { client: None, node: 0, machine: 1 }];
        let forgot = [Restart { node: 2, machine: 0, keeps_data: false }];
        // Client 1 is still connected to the former server of name 0, and does not look at server
        // 1.
        let set_back = [
            Open { client: 1, node: 2 },
            Look { client: 1, node: 2 },
            Store { client: 1, into: 2, of: 0 },
            Store { client: 1, into: 0, of: 2 },
        ];
        [&moved[..], &probation(0), &forgot, &probation(2), &set_back].concat()
    }

    fn setup(without: Option<RulePart>) -> NamesSetup {
        let faults = FaultBudget { moves: 1, blank_restarts: 1, ..FaultBudget::default() };
        NamesSetup { without, faults, ..moves(3) }
    }

    #[test]
    fn stale_client_sets_owner_back() {
        let setup = by_groups(setup(Some(RulePart::GreaterOwner)));
        let found = run(setup, &moves_then_forgets());
        assert_eq!(found, Some(Violation::DisjointGroups));
    }

    #[test]
    fn both_owners_grant_lock() {
        let locks = [
            Attempt { client: 0 },
            Vote { client: 0, node: 0 },
            Vote { client: 0, node: 1 },
            Attempt { client: 1 },
            Vote { client: 1, node: 0 },
            Vote { client: 1, node: 2 },
        ];
        let mut world = NamesWorld::new(setup(Some(RulePart::GreaterOwner)));
        let steps = [&moves_then_forgets()[..], &locks].concat();

        assert!(steps.into_iter().all(|step| world.apply(step)));
        assert_eq!(world.holders(), 2);
    }

    /// With the rule the server that forgot has the greater owner stored, and keeps it.
    #[test]
    fn greater_owner_stays() {
        let mut world = NamesWorld::new(by_groups(setup(None)));
        for step in moves_then_forgets() {
            let sets_back = step == Store { client: 1, into: 2, of: 0 };
            assert_eq!(world.apply(step), !sets_back, "{step:?}");
        }
        assert_eq!(world.violation, None);
    }
}

//! Each part of the rule is needed: without it the searches that find nothing otherwise find a
//! violation.
//!
//! The sets, seeds and numbers of walks are those of [`holds`](super::holds), or fewer walks.

use super::{
    faults::FaultBudget,
    holds::WALKS,
    rule::RulePart,
    setups::{
        by_groups, claiming, clocks_only, drifting, fails_over, moves, plain, recording,
        recording_in_turns, restarts, run, search, without,
    },
    step::{NamesStep, Violation},
    world::{NamesSetup, NamesWorld},
};

/// Makes a test of each part of the rule: without it, a search of the set with this number of walks
/// finds this violation.
macro_rules! finds {
    ($($(#[$attribute:meta])* $name:ident: $part:ident, $setup:expr, $walks:expr => $found:pat,)+) => {$(
        $(#[$attribute])*
        #[test]
        fn $name() {
            let found = search(without(RulePart::$part, $setup), $walks);
            let (violation, _) = found.expect("the search finds what the part prevents");
            assert!(matches!(violation, $found), "{violation:?}");
        }
    )+};
}

/// Name 0 leads client 0 to another server, which it activates; client 1 stays with the former one.
fn name_0_moves_for_client_0() -> impl Iterator<Item = NamesStep> + Clone {
    use NamesStep::{Activate, Begin, Fence, Merge, Move, Observe, Open, Store, Tick};
    let steps = [
        Move { client: Some(0), node: 0, machine: 1 },
        Open { client: 0, node: 0 },
        Observe { client: 0, node: 0 },
        Store { client: 0, into: 1, of: 0 },
        Store { client: 0, into: 2, of: 0 },
        Merge { client: 0, node: 0 },
        Observe { client: 0, node: 1 },
        Observe { client: 0, node: 2 },
        Observe { client: 0, node: 0 },
        Tick,
        Tick,
        Tick,
        Begin { client: 0, node: 0 },
        Fence { client: 0, node: 1 },
        Fence { client: 0, node: 2 },
        Activate { client: 0 },
        // It reads the view under which the server votes.
        Observe { client: 0, node: 0 },
    ];
    steps.into_iter()
}

// Watched by groups.
finds! {
    groups_need_equal_views: Views, by_groups(moves(3)), WALKS => Violation::DisjointGroups,
    groups_need_witnesses: EnoughWitnesses, by_groups(moves(3)), WALKS => Violation::DisjointGroups,
    groups_need_wait_from_witnesses: Wait, by_groups(moves(3)), WALKS => Violation::DisjointGroups,
    groups_need_starters: Starters, by_groups(moves(3)), WALKS => Violation::DisjointGroups,
    promoted_replica_is_enrolled_anew:
        OwnRun, by_groups(fails_over(3)), WALKS => Violation::DisjointGroups,
    failover_needs_the_wait: Wait, by_groups(fails_over(3)), WALKS => Violation::DisjointGroups,
    #[ignore = "takes more walks: see verify/model.md"]
    groups_need_active_witnesses:
        ActiveWitnesses, by_groups(moves(5)), 20_000 => Violation::DisjointGroups,
}

// Clocks drift.
finds! {
    validity_allows_for_drift: DriftInValidity, clocks_only(3), WALKS => Violation::TwoHolders,
    probation_allows_for_drift:
        WaitBeyondValidity, by_groups(drifting(moves(3))), WALKS => Violation::DisjointGroups,
}

// Watched by locks.
finds! {
    locks_need_equal_views: Views, moves(3), WALKS => _,
    activated_server_learns_fences: Fences, moves(3), WALKS => Violation::TokenIssuedTwice,
    #[ignore = "takes more walks: see verify/model.md"]
    locks_need_witnesses: EnoughWitnesses, moves(3), 20_000 => _,
    #[ignore = "takes more walks: see verify/model.md"]
    locks_need_wait_from_witnesses: Wait, moves(3), 60_000 => _,
    #[ignore = "takes more walks: see verify/model.md"]
    locks_need_starters: Starters, moves(3), 60_000 => _,
    #[ignore = "takes more walks: see verify/model.md"]
    extensions_compare_views: ViewsOnExtensions, moves(3), 100_000 => Violation::TwoHolders,
    fences_are_named_by_the_view: NamedFences, plain(moves(3)), WALKS => _,
}

// Ticks that are claimed, and work that is done once.
finds! {
    activated_server_learns_claims:
        Claims, claiming(moves(3)), WALKS => Violation::TickClaimedTwice,
    bootstrapped_server_burns_ticks:
        Burnt, claiming(two_restart_blank()), WALKS => Violation::TickClaimedTwice,
    #[ignore = "takes more walks: see verify/model.md"]
    records_compare_views: ViewsOnWork, recording(moves(3)), 200_000 => Violation::WorkDoneTwice,
    server_that_lacks_records_abstains:
        Copies, recording(moves(3)), WALKS => Violation::WorkDoneTwice,
    #[ignore = "takes more walks: see verify/model.md"]
    enough_servers_are_copied:
        EnoughCopies, recording(moves(3)), 100_000 => Violation::WorkDoneTwice,
    // A server in probation may stand in front of the one that keeps the record, which votes.
    #[ignore = "takes more walks: see verify/model.md"]
    servers_that_are_copied_vote:
        VotingSources, recording_in_turns(moves(3)), 100_000 => Violation::WorkDoneTwice,
}

fn two_restart_blank() -> NamesSetup {
    let faults = FaultBudget { blank_restarts: 2, ..FaultBudget::default() };
    NamesSetup { faults, ..restarts(3) }
}

mod plain_votes {
    use super::*;

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
}

mod work {
    use super::*;
    use NamesStep::{
        Activate, Ask, Attempt, Begin, BeginCopy, CopyFrom, EndCopy, Fence, Merge, Observe,
    };
    use NamesStep::{Open, Raise, RaiseVote, Release, Restart, Store, Tick, Vote, Work};

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
                Observe { client: 1, node },
                Store { client: 1, into: one, of: node },
                Store { client: 1, into: two, of: node },
                Merge { client: 1, node },
                Observe { client: 1, node: one },
                Observe { client: 1, node: two },
                Observe { client: 1, node },
                Tick,
                Tick,
                Tick,
                Begin { client: 1, node },
                Fence { client: 1, node: one },
                Fence { client: 1, node: two },
                Activate { client: 1 },
                Observe { client: 1, node },
            ]
        };
        let copy = [
            Observe { client: 0, node: 2 },
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
        let read = [
            Observe { client: 0, node: 1 },
            CopyFrom { client: 0, node: 1 },
            EndCopy { client: 0 },
        ];

        assert!(read.iter().all(|&step| world.apply(step)));
    }
}

/// A simpler rule: a server replaces an owner by compare-and-set, and stores a list of those that
/// it replaced. A server that forgot has no list, so a client that knows only the former owner of a
/// name sets it back.
mod compare_and_set {
    use super::*;
    use NamesStep::{
        Activate, Attempt, Begin, Fence, Move, Observe, Open, Restart, Store, Tick, Vote,
    };

    /// Client 0 sees the first server of `node` through its probation.
    fn probation(node: usize) -> Vec<NamesStep> {
        let [one, two] = [(node + 1) % 3, (node + 2) % 3];
        let mut steps = vec![
            Open { client: 0, node },
            Observe { client: 0, node },
            Store { client: 0, into: one, of: node },
            Store { client: 0, into: two, of: node },
            Store { client: 0, into: node, of: one },
            Observe { client: 0, node },
            Store { client: 0, into: node, of: two },
        ];
        steps.extend([one, two, node].map(|node| Observe { client: 0, node }));
        steps.extend([Tick, Tick, Tick, Begin { client: 0, node }]);
        steps.extend([one, two].map(|node| Fence { client: 0, node }));
        steps.extend([Activate { client: 0 }, Observe { client: 0, node }]);
        steps
    }

    fn moves_then_forgets() -> Vec<NamesStep> {
        let moved = [Move { client: None, node: 0, machine: 1 }];
        let forgot = [Restart { node: 2, machine: 0, keeps_data: false }];
        // Client 1 is still connected to the former server of name 0, and does not look at server
        // 1.
        let set_back = [
            Open { client: 1, node: 2 },
            Observe { client: 1, node: 2 },
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

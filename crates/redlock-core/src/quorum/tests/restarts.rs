//! Nodes that come back without what they kept: exclusion and the order of the tokens hold all the
//! same, as such nodes do not vote until what they forgot has expired.

use std::time::Duration;

use proptest::{
    collection::vec, prelude::*, sample::Index, strategy::ValueTree, test_runner::TestRunner,
};

use super::{
    safety::config,
    world::{WorldProcess, WorldSetup},
    world_steps::{WorldStep, run},
};

proptest! {
    #![proptest_config(config())]

    #[test]
    fn exclusion_and_token_order_survive_restarts(
        setup in setup(),
        steps in vec(step(), 0..300),
    ) {
        run(&setup, &steps);
    }
}

proptest! {
    #![proptest_config(config())]

    /// Quick contenders whose clocks are far behind, and that remember nothing: only the nodes'
    /// fences keep the order. Probations end soon after they may.
    #[test]
    fn frequent_restarts_break_nothing(
        nodes in 3_usize..=5,
        steps in vec(pointed(), 0..150),
    ) {
        let process = |seconds: i64| WorldProcess { skew: seconds * -1_000_000, learns: false };
        let ttl = Duration::from_secs(2);
        let setup = WorldSetup {
            nodes,
            ttl,
            max_hold: ttl * 3,
            auto_extend: false,
            fencing: true,
            processes: vec![process(900), process(901), process(902)],
        };

        run(&setup, &steps.concat());
    }
}

/// Pieces of a story, each of several steps.
fn pointed() -> impl Strategy<Value = Vec<WorldStep>> {
    let who = || 0_u8..3;
    let most = || (any::<u16>(), any::<u16>()).prop_map(|(some, more)| some | more);
    prop_oneof![
        // Three exchanges: the request, a raise, and the raise's answer.
        8 => (who(), most()).prop_map(|(who, nodes)| {
            let exchange = WorldStep::Exchange { who: 0, nodes };
            vec![WorldStep::Start(who), exchange.clone(), exchange.clone(), exchange]
        }),
        3 => who().prop_map(|who| vec![
            WorldStep::Release { who, awaited: false },
            WorldStep::Exchange { who, nodes: u16::MAX },
        ]),
        2 => any::<Index>().prop_map(|node| vec![WorldStep::Restart { node, keeps_fence: false }]),
        4 => (any::<Index>(), most(), 0_u8..70, most()).prop_map(|(node, nodes, parts, reached)| {
            vec![
                WorldStep::Restart { node, keeps_fence: false },
                WorldStep::Observe { process: 0, nodes },
                WorldStep::Pass(parts),
                WorldStep::Enrol { process: 0, reached },
            ]
        }),
        3 => most().prop_map(|nodes| vec![WorldStep::Observe { process: 0, nodes }]),
        2 => (0_u8..30).prop_map(|parts| vec![WorldStep::Pass(parts)]),
        // A probation is a little longer than the validity.
        2 => (60_u8..70).prop_map(|parts| vec![WorldStep::Pass(parts)]),
        3 => most().prop_map(|reached| vec![WorldStep::Enrol { process: 0, reached }]),
    ]
}

#[test]
fn worlds_reach_both_probation_ends() {
    let mut runner = TestRunner::deterministic();
    let (mut learnt, mut bootstrapped, mut acquired) = (0, 0, 0);

    for _ in 0..300 {
        let setup = setup().new_tree(&mut runner).unwrap().current();
        let steps = vec(step(), 0..300).new_tree(&mut runner).unwrap().current();
        let tally = run(&setup, &steps);
        learnt += tally.learnt;
        bootstrapped += tally.bootstrapped;
        acquired += tally.acquired;
    }
    let counts = (learnt, bootstrapped, acquired);

    assert!(learnt > 100 && bootstrapped > 100 && acquired > 300, "{counts:?}");
}

fn setup() -> impl Strategy<Value = WorldSetup> {
    let skew = prop_oneof![Just(0_i64), -1_000_000..1_000_000_i64];
    let process = (skew, any::<bool>()).prop_map(|(skew, learns)| WorldProcess { skew, learns });
    (1_usize..=5, any::<bool>(), vec(process, 1..=3)).prop_map(|(nodes, auto_extend, processes)| {
        let ttl = Duration::from_secs(2);
        WorldSetup { nodes, ttl, max_hold: ttl * 3, auto_extend, fencing: true, processes }
    })
}

fn step() -> impl Strategy<Value = WorldStep> {
    let who = || 0_u8..3;
    let most = || (any::<u16>(), any::<u16>()).prop_map(|(some, more)| some | more);
    prop_oneof![
        6 => who().prop_map(WorldStep::Start),
        9 => (who(), most()).prop_map(|(who, nodes)| WorldStep::Exchange { who, nodes }),
        2 => (who(), any::<Index>()).prop_map(|(who, node)| {
            WorldStep::Execute { who, node, error: None }
        }),
        2 => (who(), any::<Index>()).prop_map(|(who, which)| {
            WorldStep::Deliver { who, which, twice: false }
        }),
        3 => (0_u8..40).prop_map(WorldStep::Pass),
        1 => (40_u8..80).prop_map(WorldStep::Pass),
        2 => (who(), 0_u8..4).prop_map(|(who, late)| WorldStep::Wake { who, late, wake: true }),
        1 => who().prop_map(|who| WorldStep::Release { who, awaited: false }),
        1 => (any::<Index>(), any::<bool>()).prop_map(|(node, keeps_fence)| {
            WorldStep::Restart { node, keeps_fence }
        }),
        5 => (who(), most()).prop_map(|(process, nodes)| WorldStep::Observe { process, nodes }),
        5 => (who(), most()).prop_map(|(process, reached)| WorldStep::Enrol { process, reached }),
    ]
}

//! The order of the tokens, where nodes lose keys as well: it needs the fences alone.

use std::time::Duration;

use proptest::{collection::vec, prelude::*};

use super::{
    safety::config,
    world::{WorldProcess, WorldSetup},
    world_steps::{WorldStep, run, setup, steps},
};

proptest! {
    #![proptest_config(config())]

    #[test]
    fn tokens_grow_despite_lost_keys(setup in setup(), steps in steps(true)) {
        run(&WorldSetup { fencing: true, ..setup }, &steps);
    }

    /// Processes whose clocks are behind and that remember nothing: every attempt but the first
    /// must raise, while the nodes answer one by one and the keys come and go.
    #[test]
    fn tokens_grow_with_stale_proposals(
        nodes in 1_usize..=5,
        skews in vec(-900_000_000..-899_999_000_i64, 3),
        steps in vec(race(), 0..200),
    ) {
        let processes =
            skews.into_iter().map(|skew| WorldProcess { skew, learns: false }).collect();
        let ttl = Duration::from_secs(2);
        let setup =
            WorldSetup { nodes, ttl, max_hold: ttl * 2, auto_extend: true, fencing: true, processes };

        run(&setup, &steps);
    }
}

/// Contenders that come and go quickly.
fn race() -> impl Strategy<Value = WorldStep> {
    let who = || 0_u8..3;
    prop_oneof![
        3 => who().prop_map(WorldStep::Start),
        4 => (who(), any::<prop::sample::Index>()).prop_map(|(who, node)| {
            WorldStep::Execute { who, node, error: None }
        }),
        4 => (who(), any::<prop::sample::Index>()).prop_map(|(who, which)| {
            WorldStep::Deliver { who, which, twice: false }
        }),
        4 => (who(), any::<u16>()).prop_map(|(who, nodes)| WorldStep::Exchange { who, nodes }),
        2 => who().prop_map(|who| WorldStep::Release { who, awaited: false }),
        1 => any::<prop::sample::Index>().prop_map(WorldStep::Wipe),
        1 => who().prop_map(|who| WorldStep::Wake { who, late: 0, wake: true }),
        1 => (0_u8..2).prop_map(WorldStep::Pass),
    ]
}

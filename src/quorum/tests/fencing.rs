//! The order of the tokens, where nodes lose keys as well: it needs the fences alone.

use std::time::Duration;

use proptest::{collection::vec, prelude::*};

use super::{
    safety::config,
    steps::{Step, run, setup, steps},
    world::{Process, Setup},
};

proptest! {
    #![proptest_config(config())]

    #[test]
    fn tokens_grow_even_where_keys_are_lost(setup in setup(), steps in steps(true)) {
        run(&Setup { fencing: true, ..setup }, &steps);
    }

    /// Processes whose clocks are behind and that remember nothing: every attempt but the first
    /// must raise, while the nodes answer one by one and the keys come and go.
    #[test]
    fn tokens_grow_where_every_proposal_is_stale(
        nodes in 1_usize..=5,
        skews in vec(-900_000_000..-899_999_000_i64, 3),
        steps in vec(race(), 0..200),
    ) {
        let processes =
            skews.into_iter().map(|skew| Process { skew, learns: false }).collect();
        let ttl = Duration::from_secs(2);
        let setup =
            Setup { nodes, ttl, max_hold: ttl * 2, auto_extend: true, fencing: true, processes };
        run(&setup, &steps);
    }
}

/// Contenders that come and go quickly.
fn race() -> impl Strategy<Value = Step> {
    let who = || 0_u8..3;
    prop_oneof![
        3 => who().prop_map(Step::Start),
        4 => (who(), any::<prop::sample::Index>()).prop_map(|(who, node)| {
            Step::Execute { who, node, error: None }
        }),
        4 => (who(), any::<prop::sample::Index>()).prop_map(|(who, which)| {
            Step::Deliver { who, which, twice: false }
        }),
        4 => (who(), any::<u16>()).prop_map(|(who, nodes)| Step::Exchange { who, nodes }),
        2 => who().prop_map(|who| Step::Release { who, awaited: false }),
        1 => any::<prop::sample::Index>().prop_map(Step::Wipe),
        1 => who().prop_map(|who| Step::Wake { who, late: 0, wake: true }),
        1 => (0_u8..2).prop_map(Step::Pass),
    ]
}

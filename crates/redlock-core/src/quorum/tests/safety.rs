//! Random worlds in which the nodes keep their keys for the TTL: exclusion, validity, release.

use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};

use super::world_steps::{run, setup, steps};

pub(super) fn config() -> Config {
    Config { failure_persistence: None, ..Config::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn exclusion_and_validity_hold(
        setup in setup(),
        steps in steps(false),
    ) {
        run(&setup, &steps);
    }
}

/// Without this the properties could hold because nothing happens.
#[test]
fn worlds_reach_every_outcome() {
    let mut runner = TestRunner::deterministic();
    let mut sums = [0; 9];

    for _ in 0..300 {
        let setup = setup().new_tree(&mut runner).unwrap().current();
        let steps = steps(false).new_tree(&mut runner).unwrap().current();
        let tally = run(&setup, &steps);
        let counts = [
            tally.acquired,
            tally.raised,
            tally.refused,
            tally.renewed,
            tally.handed_on,
            tally.lingered,
            tally.lost,
            tally.orphaned,
            tally.released,
        ];
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum += count;
        }
    }

    assert!(sums.iter().all(|&sum| sum > 10), "{sums:?}");
}

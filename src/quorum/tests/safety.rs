//! Random worlds in which the nodes keep their keys for the TTL: exclusion, validity, release.

use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};

use super::steps::{run, setup, steps};

pub(super) fn config() -> Config {
    Config { failure_persistence: None, ..Config::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn never_two_holders_and_never_past_what_a_quorum_keeps(
        setup in setup(),
        steps in steps(false),
    ) {
        run(&setup, &steps);
    }
}

/// The properties say nothing of worlds in which nothing happens.
#[test]
fn the_random_worlds_come_to_everything() {
    let mut runner = TestRunner::deterministic();
    let mut sums = [0; 8];
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

//! R4: several rounds of renewal under way.

use super::fixture::{Bench, extended, held, params, renewed, round};
use crate::{quorum::Action, vote::Reason};

/// Node 1 answers the first round, node 2 a later one: together they confirm the first.
#[test]
fn slow_answer_counts_from_its_round() {
    let mut bench = Bench::held();
    bench.at(3_000).wake();
    assert_eq!(bench.extension(1, 3_000, extended()), []);
    bench.at(3_250).wake();
    assert_eq!(bench.at(3_300).extension(2, 3_250, extended()), [renewed(12_000)]);
    assert_eq!(bench.at(3_400).extension(1, 3_250, extended()), [renewed(12_250)]);
    assert_eq!(bench.extension(0, 3_000, extended()), [], "a late answer shortens nothing");
}

/// The answers arrive in the wrong order: the later round stays confirmed.
#[test]
fn earlier_answer_keeps_later_confirmation() {
    let mut bench = Bench::held();
    bench.at(3_000).wake();
    bench.at(3_250).wake();
    assert_eq!(bench.extension(1, 3_250, extended()), []);
    assert_eq!(bench.extension(1, 3_000, extended()), []);
    assert_eq!(bench.extension(2, 3_250, extended()), [renewed(12_250)]);
}

/// A node that answers one round and not the next still keeps the key from the first.
#[test]
fn error_keeps_confirmation() {
    for reason in [Reason::TimedOut, Reason::Loading] {
        let mut bench = Bench::held();
        bench.at(3_000).wake();
        assert_eq!(bench.extension(1, 3_000, extended()), []);
        bench.at(3_250).wake();
        assert_eq!(bench.extension(1, 3_250, Err(reason)), []);
        assert_eq!(bench.extension(2, 3_250, extended()), [renewed(12_000)]);
    }
}

/// An answer to an earlier round does not decide an explicit extension.
#[test]
fn extension_is_decided_by_own_round() {
    let mut bench = Bench::held();
    bench.at(3_000).wake();
    bench.at(3_010).extend();
    bench.extension(0, 3_000, extended());
    assert_eq!(bench.extension(1, 3_000, extended()), [renewed(12_000)]);
    assert_eq!(bench.extension(0, 3_010, extended()), []);
    let done = bench.extension(1, 3_010, extended());
    assert_eq!(done, [renewed(12_010), Action::Extended(Ok(()))]);
}

/// A round is identified by its start.
#[test]
fn simultaneous_extension_joins_round() {
    let mut bench = Bench::held();
    assert_eq!(bench.at(3_000).wake(), round(3, 3_000, 9_000));
    assert_eq!(bench.extend(), []);
    bench.extension(0, 3_000, extended());
    let done = bench.extension(1, 3_000, extended());
    assert_eq!(done, [renewed(12_000), Action::Extended(Ok(()))]);
}

/// What a node confirmed before it lost the key to another does not count any more.
#[test]
fn confirmation_taken_back_does_not_count() {
    let mut bench = Bench::held_with(params(5));
    bench.at(3_000).wake();
    bench.extension(0, 3_000, extended());
    bench.extension(1, 3_000, extended());
    bench.at(3_250).wake();
    assert_eq!(bench.extension(1, 3_250, held("b", None)), []);
    assert_eq!(bench.extension(2, 3_250, extended()), [], "two of five keep the key that long");
    assert_eq!(bench.extension(3, 3_250, extended()), [renewed(12_000)]);
}

//! R4: several rounds of renewal under way.

use super::fixture::{Fixture, extended, held, params, renewed, round};
use crate::{quorum::Action, vote::Reason};

/// Node 1 answers the first round, node 2 a later one: together they confirm the first.
#[test]
fn slow_answer_counts_from_its_round() {
    let mut fixture = Fixture::held();
    fixture.at(3_000).wake();
    assert_eq!(fixture.extension(1, 3_000, extended()), []);
    fixture.at(3_250).wake();
    assert_eq!(fixture.at(3_300).extension(2, 3_250, extended()), [renewed(12_000)]);
    assert_eq!(fixture.at(3_400).extension(1, 3_250, extended()), [renewed(12_250)]);
    assert_eq!(fixture.extension(0, 3_000, extended()), [], "a late answer shortens nothing");
}

/// The answers arrive in the wrong order: the later round stays confirmed.
#[test]
fn earlier_answer_keeps_later_confirmation() {
    let mut fixture = Fixture::held();
    fixture.at(3_000).wake();
    fixture.at(3_250).wake();
    assert_eq!(fixture.extension(1, 3_250, extended()), []);
    assert_eq!(fixture.extension(1, 3_000, extended()), []);
    assert_eq!(fixture.extension(2, 3_250, extended()), [renewed(12_250)]);
}

/// A node that answers one round and not the next still keeps the key from the first.
#[test]
fn error_keeps_confirmation() {
    for reason in [Reason::TimedOut, Reason::Loading] {
        let mut fixture = Fixture::held();
        fixture.at(3_000).wake();
        assert_eq!(fixture.extension(1, 3_000, extended()), []);
        fixture.at(3_250).wake();
        assert_eq!(fixture.extension(1, 3_250, Err(reason)), []);
        assert_eq!(fixture.extension(2, 3_250, extended()), [renewed(12_000)]);
    }
}

/// An answer to an earlier round does not decide an explicit extension.
#[test]
fn extension_is_decided_by_own_round() {
    let mut fixture = Fixture::held();
    fixture.at(3_000).wake();
    fixture.at(3_010).extend();
    fixture.extension(0, 3_000, extended());
    assert_eq!(fixture.extension(1, 3_000, extended()), [renewed(12_000)]);
    assert_eq!(fixture.extension(0, 3_010, extended()), []);
    let done = fixture.extension(1, 3_010, extended());
    assert_eq!(done, [renewed(12_010), Action::Extended(Ok(()))]);
}

/// A round is identified by its start.
#[test]
fn simultaneous_extension_joins_round() {
    let mut fixture = Fixture::held();
    assert_eq!(fixture.at(3_000).wake(), round(3, 3_000, 9_000));
    assert_eq!(fixture.extend(), []);
    fixture.extension(0, 3_000, extended());
    let done = fixture.extension(1, 3_000, extended());
    assert_eq!(done, [renewed(12_000), Action::Extended(Ok(()))]);
}

/// What a node confirmed before it lost the key to another does not count any more.
#[test]
fn confirmation_taken_back_does_not_count() {
    let mut fixture = Fixture::held_with(params(5));
    fixture.at(3_000).wake();
    fixture.extension(0, 3_000, extended());
    fixture.extension(1, 3_000, extended());
    fixture.at(3_250).wake();
    assert_eq!(fixture.extension(1, 3_250, held("b", None)), []);
    assert_eq!(fixture.extension(2, 3_250, extended()), [], "two of five keep the key that long");
    assert_eq!(fixture.extension(3, 3_250, extended()), [renewed(12_000)]);
}

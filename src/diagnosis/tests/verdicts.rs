//! The verdict by the number of votes.

use super::{Findings, MS, SECOND, text};
use crate::{
    diagnosis::Verdict,
    error::Reason,
    node::{ClockOffset, NodeState},
};

/// Five nodes, of which this number votes.
fn voting(votes: usize) -> Findings {
    let mut found = Findings::healthy(5);
    (votes..5).for_each(|node| found.down(node, Reason::NotConnected(text("refused"))));
    found
}

#[test]
fn verdict_follows_the_votes() {
    let cases = [
        (0, Verdict::NoQuorum, "no locks at present; 0 of 5 nodes vote, 3 are needed"),
        (2, Verdict::NoQuorum, "no locks at present; 2 of 5 nodes vote, 3 are needed"),
        (
            3,
            Verdict::Degraded,
            "locks work, but something needs attention; 3 of 5 nodes vote, 3 are needed, and no further one may fail",
        ),
        (
            4,
            Verdict::Degraded,
            "locks work, but something needs attention; 4 of 5 nodes vote, 3 are needed",
        ),
        (5, Verdict::Healthy, "locks work; 5 of 5 nodes vote, 3 are needed"),
    ];
    for (votes, verdict, summary) in cases {
        let diagnosis = voting(votes).diagnosis();
        assert_eq!((diagnosis.voting(), diagnosis.quorum()), (votes, 3));
        assert_eq!(diagnosis.verdict(), verdict, "{votes} votes");
        assert_eq!(diagnosis.summary(), summary);
    }
}

#[test]
fn test_vote_has_to_count() {
    let verdict = |vote| {
        let mut found = Findings::healthy(1);
        found.votes[0] = vote;
        found.diagnosis().verdict()
    };

    assert_eq!(verdict(None), Verdict::Healthy, "without test votes");
    assert_eq!(verdict(Some(Ok(49 * MS))), Verdict::Healthy);
    assert_eq!(verdict(Some(Ok(50 * MS))), Verdict::NoQuorum, "as late as the node timeout");
    assert_eq!(verdict(Some(Err(Reason::OutOfMemory))), Verdict::NoQuorum);
}

#[test]
fn refusing_node_has_no_vote() {
    let mut found = Findings::healthy(3);
    found.refusing(0, Reason::Busy);
    assert_eq!(found.diagnosis().voting(), 2, "although its test vote counted");
}

#[test]
fn hints_leave_set_healthy() {
    let mut found = Findings::healthy(3);
    found.health[0].clock = Some(ClockOffset::new(2_000_000, MS));
    let diagnosis = found.diagnosis();
    assert_eq!(diagnosis.advice.len(), 1);
    assert_eq!(diagnosis.verdict(), Verdict::Healthy);
}

#[test]
fn probations_of_quorum_need_time() {
    let mut found = voting(2);
    assert!(!found.diagnosis().summary().contains("waiting is enough"));
    found.health[2].state =
        NodeState::Probation { remaining: SECOND, since: SECOND, blocked: None };
    assert!(found.diagnosis().summary().contains("waiting is enough"));
}

#[test]
fn verdicts_are_shown_in_words() {
    let shown = [Verdict::Healthy, Verdict::Degraded, Verdict::NoQuorum].map(|v| v.to_string());
    assert_eq!(shown, ["healthy", "degraded", "no quorum"]);
}

#[test]
fn verdict_of_several_sets_is_the_worst() {
    let mut findings = Findings::healthy(6);
    findings.terms.sets = vec![3, 3];
    assert_eq!(findings.diagnosis().verdict(), Verdict::Healthy);
    assert_eq!(
        findings.diagnosis().summary(),
        "locks work; 3 of 3 nodes of set 1 vote, 2 are needed; 3 of 3 nodes of set 2 vote, 2 are needed"
    );

    // Four of six votes, but not two of three.
    findings.down(3, Reason::TimedOut);
    findings.down(4, Reason::TimedOut);

    let diagnosis = findings.diagnosis();
    assert_eq!((diagnosis.voting(), diagnosis.quorum()), (4, 4));
    assert_eq!(diagnosis.verdict(), Verdict::NoQuorum);
    let summary = diagnosis.summary();
    assert!(summary.starts_with("no locks in a set of nodes at present; 3 of 3"), "{summary}");
    assert!(summary.contains("1 of 3 nodes of set 2 vote, 2 are needed"), "{summary}");
}

#[test]
fn each_set_has_its_own_diagnosis() {
    let mut findings = Findings::healthy(6);
    let alone = findings.diagnosis();
    findings.terms.sets = vec![3, 3];
    // Names of nodes are unique within a set.
    findings.health[3].name = std::sync::Arc::clone(&findings.health[0].name);
    findings.down(3, Reason::TimedOut);

    let diagnosis = findings.diagnosis();

    let [one, two] = diagnosis.sets() else { panic!("{diagnosis:?}") };
    assert_eq!((one.verdict(), two.verdict()), (Verdict::Healthy, Verdict::Degraded));
    assert_eq!((one.advice.len(), &two.advice), (0, &diagnosis.advice));
    assert_eq!([&one.nodes[..], &two.nodes[..]].concat(), diagnosis.nodes);
    let summary = "locks work, but something needs attention; 2 of 3 nodes vote, 2 are needed, and no further one may fail";
    assert_eq!(two.summary(), summary);
    assert_eq!(alone.sets(), std::slice::from_ref(&alone));
}

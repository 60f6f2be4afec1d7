//! The order and the texts of advice.

use super::{Findings, MS, SECOND, text};
use crate::{
    Redlock,
    diagnosis::{Advice, NodeDiagnosis, Severity},
    error::Reason,
    node::{ClockOffset, Finding, NodeState},
};

fn only(found: &Findings) -> Advice {
    let mut advice = found.diagnosis().advice;
    assert_eq!(advice.len(), 1, "{advice:#?}");
    advice.remove(0)
}

#[test]
fn problems_come_before_hints() {
    let mut found = Findings::healthy(4);
    found.health[0].clock = Some(ClockOffset::new(2_000_000, MS));
    found.refusing(1, Reason::TtlTooLong);
    found.down(3, Reason::NotConnected(text("refused")));
    found.down(2, Reason::NotConnected(text("refused")));
    let advice = found.diagnosis().advice;
    let order: Vec<_> =
        advice.iter().map(|one| (one.severity, one.code, one.node.as_deref())).collect();

    let expected = [
        (Severity::Problem, "down", Some("node-2")),
        (Severity::Problem, "down", Some("node-3")),
        (Severity::Problem, "ttl-too-long", Some("node-1")),
        (Severity::Hint, "clock", Some("node-0")),
        (Severity::Hint, "even-nodes", None),
    ];

    assert_eq!(order, expected);
    assert_eq!(advice[3].what, "its clock is 2.0s ahead of ours");
}

#[test]
fn wrong_clock_is_reported_once() {
    let mut found = Findings::healthy(3);
    found.health[0].findings.push(Finding::ServerClock { ahead_micros: -90_000_000 });
    found.refusing(0, Reason::TokenAhead);
    let clock = only(&found);
    assert_eq!(clock.code, "clock");
    assert!(clock.what.starts_with("its wall clock is 90.0s behind "), "{clock}");
    found.health[0].state = NodeState::Voting;
    found.votes[0] = Some(Err(Reason::TokenAhead));
    assert_eq!(only(&found).code, "clock");

    let mut found = Findings::healthy(3);
    for health in &mut found.health {
        health.clock = Some(ClockOffset::new(-90_000_000, MS));
        health.findings.push(Finding::OwnClock { ahead_micros: 90_000_000 });
    }
    assert_eq!(only(&found).code, "own-clock");
}

#[test]
fn missing_permission_is_named() {
    let todo = |message: &str| {
        let mut found = Findings::healthy(3);
        found.refusing(0, Reason::NoPermission(text(message)));
        only(&found).todo
    };
    assert!(todo("can't run the 'config get' command").starts_with("add +config|get, and"));
    assert!(todo("No permissions to access a key").starts_with("add ~redlock:*, and"));
    assert!(todo("NOPERM").starts_with("find the denied command with ACL LOG"));
}

#[test]
fn server_texts_stay_one_line() {
    let forged = "x\nproblem: forged";
    let reasons = [
        Reason::NotConnected(text(forged)),
        Reason::NoPermission(text("run the 'x\ny' command")),
        Reason::OtherLayout { found: text(forged), ours: text("a") },
        Reason::Evicts { policy: text(forged) },
        Reason::Server(text(forged)),
    ];

    for reason in reasons {
        let mut found = Findings::healthy(3);
        found.down(0, reason);
        found.health[1].denied = [text(forged)].into();
        let diagnosis = found.diagnosis();
        for advice in &diagnosis.advice {
            assert!(!advice.to_string().contains('\n'), "{advice}");
        }
        assert!(!diagnosis.nodes[0].state().contains('\n'));
    }
}

#[test]
fn advice_is_shown_with_node() {
    let mut found = Findings::healthy(3);
    found.votes[1] = Some(Err(Reason::TimedOut));

    let shown = only(&found).to_string();

    assert!(
        shown.starts_with("problem: node-1: it did not answer: timed out (do: check"),
        "{shown}"
    );

    let two = only(&Findings::healthy(2)).to_string();
    assert!(two.starts_with("hint: with 2 nodes, the loss of one"), "{two}");
}

#[test]
fn state_says_why_not() {
    let mut found = Findings::healthy(5);
    found.votes[0] = Some(Ok(1_260 * MS / 1000));
    found.votes[1] = None;
    found.votes[2] = Some(Err(Reason::OutOfMemory));
    found.down(3, Reason::NotConnected(text("connection refused")));
    found.refusing(4, Reason::Busy);
    found.votes[4] = Some(Err(Reason::TimedOut));
    let states: Vec<_> = found.diagnosis().nodes.iter().map(NodeDiagnosis::state).collect();

    let expected = [
        "voting, a vote takes 1.3ms",
        "voting",
        "no vote: out of memory: the server is at maxmemory",
        "down: connection refused",
        "no vote: busy: the server is running a script",
    ];

    assert_eq!(states, expected);
}

#[tokio::test]
async fn settings_are_the_managers() {
    let redlock = Redlock::builder()
        .nodes(["redis://127.0.0.1:1"])
        .key_prefix("other")
        .ttl(SECOND)
        .max_ttl(3 * SECOND)
        .node_timeout(300 * MS)
        .restart_guard(crate::node::redis::RestartGuard::Off)
        .build()
        .unwrap();
    let terms = super::DiagnosisTerms::of(&redlock);

    assert_eq!((&*terms.prefix, terms.max_ttl), ("other", 3 * SECOND));
    assert_eq!(terms.node_timeout, 100 * MS, "a tenth of the TTL");
    assert!(!terms.restart_guard && !terms.is_embedded);

    let terms = super::DiagnosisTerms::of(&Redlock::embedded());
    assert!(terms.restart_guard && terms.is_embedded);
}

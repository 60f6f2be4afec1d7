//! Advice on one node.

use std::{sync::Arc, time::Duration};

use super::{Advice, NodeDiagnosis, Severity, reason_advice::of_reason, terms::DiagnosisTerms};
use crate::{
    error::{Reason, ServerText, permissions},
    node::{CopyProgress, Finding, NodeState},
};

/// Maximum lead of a fencing token over a server's clock; servers refuse tokens with a greater
/// lead.
const CLOCK_LIMIT: Duration = Duration::from_secs(60);
/// Minimum offset of a clock that is reported.
pub(super) const CLOCK_HINT: Duration = Duration::from_secs(1);

pub(super) fn advise(node: &NodeDiagnosis, terms: &DiagnosisTerms) -> Vec<Advice> {
    if terms.is_embedded {
        return vote(node, terms).into_iter().collect();
    }
    let advice = [
        vote(node, terms),
        copying(node),
        memory(node, terms),
        clock(node),
        keys(node, terms),
        denied(node, terms),
        limits(node),
        unstable(node),
        wakeups(node),
    ];
    advice.into_iter().flatten().collect()
}

/// Returns advice if the node does not vote.
fn vote(node: &NodeDiagnosis, terms: &DiagnosisTerms) -> Option<Advice> {
    // The advice on the clock contains its offset.
    let is_reported = clock(node).is_some_and(|advice| advice.severity == Severity::Problem);
    match &node.health.state {
        NodeState::Refusing { reason: Reason::TokenAhead, .. } if is_reported => None,
        NodeState::Down { reason, .. } | NodeState::Refusing { reason, .. } => {
            Some(of_reason(reason, terms))
        }
        NodeState::Probation { blocked: Some(blocked), .. } => Some(Advice::problem(
            "probation-blocked",
            format!("in probation; the last attempt to end it failed: {blocked}"),
            "check the named node: the probation ends once that node answers",
        )),
        NodeState::Probation { remaining, .. } => {
            Some(of_reason(&Reason::Probation { remaining: *remaining }, terms))
        }
        NodeState::Connecting => Some(Advice::problem(
            "connecting",
            "the first connection is still being opened".into(),
            "run the diagnosis again in a moment",
        )),
        NodeState::Voting => match node.test_vote.as_ref()? {
            Err(Reason::TokenAhead) if is_reported => None,
            Err(reason) => Some(of_reason(reason, terms)),
            Ok(took) => slow(*took, terms),
        },
    }
}

fn slow(took: Duration, terms: &DiagnosisTerms) -> Option<Advice> {
    let limit = terms.node_timeout;
    (took >= limit).then(|| {
        Advice::problem(
            "slow",
            format!(
                "a vote takes {took:.1?}, more than the node timeout of {limit:.1?}: it comes too late to count"
            ),
            "check the server's load, its SLOWLOG and the network; for distant servers, raise node_timeout (at most a tenth of the TTL is used)",
        )
    })
}

fn copying(node: &NodeDiagnosis) -> Option<Advice> {
    let CopyProgress { records, bytes, .. } = node.health.copying?;
    Some(Advice::hint(
        "copying",
        format!(
            "records of finished work are being copied to it, {records} of them ({bytes} bytes) so far: until all are copied, it does not confirm that a key has no record"
        ),
        "wait, and keep the other nodes and at least one client running; it takes a second for each 10 MB",
    ))
}

fn memory(node: &NodeDiagnosis, terms: &DiagnosisTerms) -> Option<Advice> {
    let is_reported = matches!(
        &node.health.state,
        NodeState::Refusing { reason: Reason::Evicts { .. }, .. } | NodeState::Down { .. }
    );
    let memory = node.health.memory.as_ref().filter(|memory| memory.evicts() && !is_reported)?;
    Some(of_reason(&Reason::Evicts { policy: Arc::clone(&memory.policy) }, terms))
}

/// Returns the minimum offset of the server's clock.
pub(super) fn offset(node: &NodeDiagnosis) -> Option<Duration> {
    let clock = node.health.clock?;
    let off = Duration::from_micros(clock.ahead_micros.unsigned_abs());
    Some(off.saturating_sub(clock.uncertainty))
}

/// Returns the finding that this process's clock differs from the servers' clocks.
pub(super) fn own_clock(node: &NodeDiagnosis) -> Option<&Finding> {
    node.health.findings.iter().find(|finding| matches!(finding, Finding::OwnClock { .. }))
}

fn clock(node: &NodeDiagnosis) -> Option<Advice> {
    let mut findings = node.health.findings.iter();
    if let Some(found) = findings.find(|found| matches!(found, Finding::ServerClock { .. })) {
        return Some(Advice::problem(
            "clock",
            format!(
                "{found}: its votes come late, or do not count together with the other servers' votes"
            ),
            "get NTP running on the server; clocks may only be slewed, never set, while locks are used",
        ));
    }
    if own_clock(node).is_some() {
        return None;
    }
    let off = offset(node)?;
    let way = if node.health.clock?.ahead_micros < 0 { "behind" } else { "ahead of" };
    let what = format!("its clock is {off:.1?} {way} ours");
    let todo = "get NTP running on the server and on this machine; the clocks may only be slewed, never set, while locks are used";
    if off > CLOCK_LIMIT {
        let what = format!("{what}, more than {CLOCK_LIMIT:.0?}: its votes are refused or slow");
        return Some(Advice::problem("clock", what, todo));
    }
    (off > CLOCK_HINT).then(|| Advice::hint("clock", what, todo))
}

/// Returns advice if the keys can't be counted, which needs a permission that locks do not need.
fn keys(node: &NodeDiagnosis, terms: &DiagnosisTerms) -> Option<Advice> {
    match &node.lock_keys {
        Some(Err(Reason::NoPermission(_))) if node.health.role().is_some() => Some(Advice::hint(
            "no-count",
            "its lock keys can't be counted: the user lacks +scan".into(),
            format!("nothing, or: {}", permissions(&terms.prefix)),
        )),
        _ => None,
    }
}

/// Returns advice on the limitations under which the server votes.
fn limits(node: &NodeDiagnosis) -> Option<Advice> {
    let is_limit = |finding: &&Finding| matches!(finding, Finding::NoRunId);
    let limits: Vec<_> =
        node.health.findings.iter().filter(is_limit).map(ToString::to_string).collect();
    (!limits.is_empty()).then(|| {
        Advice::hint(
            "server-limits",
            format!("it votes, with limitations: {}", limits.join("; ")),
            "nothing, if these are acceptable (see \"Other servers\" in verify/servers-matrix.md); otherwise use Redis or Valkey, reached without a proxy",
        )
    })
}

/// Returns advice if connections break repeatedly while the node votes in between.
fn unstable(node: &NodeDiagnosis) -> Option<Advice> {
    let mut findings = node.health.findings.iter();
    let found = findings.find(|found| matches!(found, Finding::UnstableConnection { .. }))?;
    Some(Advice::problem(
        "unstable",
        format!("{found}; it does not vote until it is connected again"),
        "find the cause: an idle timeout or a limit of a proxy or a load balancer in front of the server, its `timeout` and `maxclients`, CLIENT KILL, restarts; connect the clients to the server directly if possible",
    ))
}

fn wakeups(node: &NodeDiagnosis) -> Option<Advice> {
    let mut findings = node.health.findings.iter();
    let found = findings.find(|found| matches!(found, Finding::UnstableWakeUps { .. }))?;
    Some(Advice::hint(
        "unstable-wake-ups",
        format!("{found}; waiters for locks of other processes retry at intervals instead"),
        "find the cause: a proxy that does not support SUBSCRIBE, its idle timeout, or `client-output-buffer-limit pubsub` of the server",
    ))
}

fn denied(node: &NodeDiagnosis, terms: &DiagnosisTerms) -> Option<Advice> {
    // The advice of `keys` reports a missing `scan`.
    let denied: Vec<_> =
        node.health.denied.iter().map(|rule| &**rule).filter(|rule| *rule != "scan").collect();
    (!denied.is_empty()).then(|| {
        Advice::hint(
            "denied",
            format!("its user is denied {}", ServerText(&denied.join(" "))),
            format!("nothing, if that is on purpose, or: {}", permissions(&terms.prefix)),
        )
    })
}

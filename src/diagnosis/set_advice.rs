//! Advice on the whole set.

use super::{
    Advice, NodeDiagnosis,
    node_advice::{CLOCK_HINT, offset, own_clock},
    terms::DiagnosisTerms,
};
use crate::{protocol::formulas, resource::Resource};

pub(super) fn advise(nodes: &[NodeDiagnosis], terms: &DiagnosisTerms) -> Vec<Advice> {
    if terms.is_embedded {
        return vec![Advice::hint(
            "embedded",
            "there is nothing to examine: these nodes are inside this process".into(),
            "configure servers, if several processes share locks",
        )];
    }
    let advice = [
        number_of_nodes(nodes.len()),
        clock_of_process(nodes),
        restart_guard(terms),
        max_ttl(nodes, terms),
        persistence(nodes, terms),
        owed_ends(terms),
    ];
    advice.into_iter().flatten().collect()
}

fn number_of_nodes(nodes: usize) -> Option<Advice> {
    if nodes < 3 {
        let plural = if nodes == 1 { "" } else { "s" };
        return Some(Advice::hint(
            "few-nodes",
            format!("with {nodes} node{plural}, the loss of one stops all locks"),
            "three servers tolerate one failure, five tolerate two",
        ));
    }
    nodes.is_multiple_of(2).then(|| {
        let failures = nodes - formulas::quorum(nodes);
        let plural = if failures == 1 { "" } else { "s" };
        let fewer = nodes - 1;
        Advice::hint(
            "even-nodes",
            format!("{nodes} nodes tolerate {failures} failure{plural}, the same as {fewer} nodes"),
            "use an odd number",
        )
    })
}

fn owed_ends(terms: &DiagnosisTerms) -> Option<Advice> {
    let oldest = terms.owed.first()?;
    let (count, age) = (terms.owed.len(), oldest.age);
    let (name, kind) = (Resource::display_name(&oldest.name), oldest.kind);
    let unprotected = terms.owed.iter().filter(|owed| !owed.is_protected).count();
    Some(Advice::problem(
        "owed-ends",
        format!(
            "this process owes the nodes {count} ends of work, the oldest for {age:.1?}: the {kind} of {name}; \
             the locks of {unprotected} have ended, so that other processes may run this work again"
        ),
        "do not end this process before enough nodes vote: it sends them as soon as a node answers",
    ))
}

fn clock_of_process(nodes: &[NodeDiagnosis]) -> Option<Advice> {
    if let Some(found) = nodes.iter().find_map(own_clock) {
        return Some(Advice::problem(
            "own-clock",
            format!(
                "{found}: locks do not depend on it, but dates and schedules on this machine do"
            ),
            "get NTP running on this machine",
        ));
    }
    let off: Vec<_> = nodes.iter().filter_map(offset).collect();
    (off.len() >= 2 && off.iter().all(|off| *off > CLOCK_HINT)).then(|| {
        Advice::hint(
            "own-clock",
            "every server's clock differs from this machine's clock, which is probably wrong"
                .into(),
            "check this machine's clock first",
        )
    })
}

fn restart_guard(terms: &DiagnosisTerms) -> Option<Advice> {
    (!terms.restart_guard).then(|| {
        Advice::hint(
            "restart-guard",
            "the restart guard is off: a server that restarted votes at once, even if it forgot locks"
                .into(),
            "turn it on, except for disposable servers",
        )
    })
}

fn max_ttl(nodes: &[NodeDiagnosis], terms: &DiagnosisTerms) -> Option<Advice> {
    let ours = terms.max_ttl;
    let longest = nodes.iter().filter_map(|node| node.health.max_ttl).max()?;
    (longest > ours).then(|| {
        Advice::hint(
            "max-ttl",
            format!("the servers' max_ttl is {longest:.1?}, and this client's is {ours:.1?}"),
            "probations last as long as the servers' max_ttl; if no client asks for more than this one, lower it with Redlock::lower_max_ttl",
        )
    })
}

fn persistence(nodes: &[NodeDiagnosis], terms: &DiagnosisTerms) -> Option<Advice> {
    let forgets = |node: &&NodeDiagnosis| {
        node.health.persistence.is_some_and(|kept| !kept.aof && kept.snapshots == Some(false))
    };
    let names: Vec<&str> = nodes.iter().filter(forgets).map(|node| &*node.health.name).collect();
    let todo = if terms.restart_guard {
        "nothing for locks: a server that restarts waits one max_ttl before it votes again (a probation). But records of work done once, \
         and claims of jobs, are gone once a majority has lost its data: with OnceLayer, turn appendonly on"
    } else {
        "turn the restart guard on: without it, a restarted server can grant a lock that is still held"
    };
    (!names.is_empty()).then(|| {
        let what = format!("no data is kept on disk by {}", names.join(", "));
        Advice::hint("no-persistence", what, todo)
    })
}

//! Advice on the whole set.

use super::{
    Advice, NodeDiagnosis,
    node_advice::{CLOCK_HINT, offset, own_clock},
    terms::DiagnosisTerms,
};
use crate::protocol::formulas;

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
    ];
    advice.into_iter().flatten().collect()
}

fn number_of_nodes(nodes: usize) -> Option<Advice> {
    if nodes < 3 {
        let plural = if nodes == 1 { "" } else { "s" };
        return Some(Advice::hint(
            "few-nodes",
            format!("with {nodes} node{plural}, the loss of one stops all locks"),
            "three servers survive the loss of one, five that of two",
        ));
    }
    nodes.is_multiple_of(2).then(|| {
        let (lose, less) = (nodes - formulas::quorum(nodes), nodes - 1);
        Advice::hint(
            "even-nodes",
            format!(
                "an even number of nodes: {nodes} survive the loss of {lose}, no more than {less} do"
            ),
            "use an odd number",
        )
    })
}

fn clock_of_process(nodes: &[NodeDiagnosis]) -> Option<Advice> {
    if let Some(found) = nodes.iter().find_map(own_clock) {
        return Some(Advice::problem(
            "own-clock",
            format!("{found}: locks don't depend on it, dates and schedules of programs here do"),
            "get NTP running on this machine",
        ));
    }
    let off: Vec<_> = nodes.iter().filter_map(offset).collect();
    (off.len() >= 2 && off.iter().all(|off| *off > CLOCK_HINT)).then(|| {
        Advice::hint(
            "own-clock",
            "every server's clock differs from ours: it is probably this machine's that is wrong"
                .into(),
            "look at this machine's clock first",
        )
    })
}

fn restart_guard(terms: &DiagnosisTerms) -> Option<Advice> {
    (!terms.restart_guard).then(|| {
        Advice::hint(
            "restart-guard",
            "the restart guard is off: a server that restarted votes at once, whatever it forgot"
                .into(),
            "right for throw-away servers only",
        )
    })
}

fn max_ttl(nodes: &[NodeDiagnosis], terms: &DiagnosisTerms) -> Option<Advice> {
    let ours = terms.max_ttl;
    let longest = nodes.iter().filter_map(|node| node.health.max_ttl).max()?;
    (longest > ours).then(|| {
        Advice::hint(
            "max-ttl",
            format!("the servers' max_ttl is {longest:.1?}, that of this client {ours:.1?}"),
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
        "nothing: with the restart guard that is safe; a server that restarts waits one max_ttl before it votes again (a probation)"
    } else {
        "use the restart guard for servers that matter: without it, a restarted server grants again what it had granted"
    };
    (!names.is_empty()).then(|| {
        let what = format!("nothing is kept on disk by {}", names.join(", "));
        Advice::hint("no-persistence", what, todo)
    })
}

//! The nodes: whether each votes, why not, and what to do.

use std::time::Duration;

use maud::{Markup, html};
use serde_json::{Value, json};
use tower_redlock::{
    diagnosis::{Diagnosis, NodeDiagnosis},
    node::NodeHealth,
};

use super::{
    advice::{advise, state, verdict},
    layout::Visit,
    region::{RegionSource, snapshot_json, snapshot_region, table},
    sets::{several, works},
    words::{brief, text},
};
use crate::{set_place::SetPlace, site::Site};

pub(crate) async fn nodes(site: &Site, visit: &Visit) -> Markup {
    let snapshot = site.snapshots.nodes().await;
    let content =
        snapshot_region("nodes", "Nodes", RegionSource::Process, snapshot.as_deref(), diagnosis);
    visit.page("nodes", "Nodes", &content)
}

fn diagnosis(diagnosis: &Diagnosis) -> Markup {
    html! {
        p { "Another process may reach other nodes than this one. What a node says of itself holds for all." }
        @match works(diagnosis) {
            None => { (verdict(diagnosis)) (of_set(diagnosis, None)) },
            Some(works) => {
                p #works { (works) }
                @for (place, set) in several(diagnosis) {
                    div.set #(place.id()) data-set=(place.number()) {
                        h3 { (place.title()) }
                        (verdict(set))
                        (of_set(set, Some(place)))
                    }
                }
            }
        }
    }
}

/// Returns the advice on a set, and its nodes.
fn of_set(set: &Diagnosis, place: Option<SetPlace>) -> Markup {
    const COLUMNS: [&str; 9] = [
        "Node",
        "State",
        "#Round trip",
        "#Clock",
        "Version",
        "Memory",
        "Persistence",
        "#In flight",
        "#Pending releases",
    ];
    let (id, what) = match place {
        None => ("nodes".into(), "nodes".into()),
        Some(place) => (format!("nodes-{}", place.number()), format!("nodes of {place}")),
    };
    html! {
        (advise(set, |_| true))
        (table(&id, &what, &COLUMNS, &html! { @for node in &set.nodes { (row(node)) } }))
    }
}

fn row(node: &NodeDiagnosis) -> Markup {
    let health = &node.health;
    html! {
        tr data-node=(health.name) data-state=(state(&health.state)) {
            th scope="row" { (text(&health.name)) }
            td { (text(&node.state())) }
            td.number { (health.round_trip.map_or("–".into(), brief)) }
            td.number { (clock(health)) }
            td {
                @if let Some(kind) = health.kind { (kind.to_string()) " " }
                @match &health.version { Some(version) => (text(version)), None => "–" }
                @if let Some(address) = moved_to(health) { " at " (text(address)) }
            }
            td { (memory(health)) }
            td { (persistence(health)) }
            td.number { (health.in_flight) }
            td.number { (health.unacknowledged) }
        }
    }
}

/// Returns the address of a node whose name differs from it.
fn moved_to(health: &NodeHealth) -> Option<&str> {
    health.address.as_deref().filter(|address| !health.name.starts_with(address))
}

fn clock(health: &NodeHealth) -> String {
    let Some(clock) = health.clock else { return "–".into() };
    let sign = if clock.ahead_micros < 0 { "−" } else { "+" };
    let off = Duration::from_micros(clock.ahead_micros.unsigned_abs());
    format!("{sign}{} ± {}", brief(off), brief(clock.uncertainty))
}

fn memory(health: &NodeHealth) -> String {
    const MIB: u64 = 1 << 20;
    let Some(memory) = &health.memory else { return "–".into() };
    let used = memory.used / MIB;
    match memory.limit {
        0 => format!("{used} MiB, no limit, {}", memory.policy),
        limit => format!("{used} of {} MiB, {}", limit / MIB, memory.policy),
    }
}

fn persistence(health: &NodeHealth) -> &'static str {
    match health.persistence.map(|kept| (kept.aof, kept.snapshots)) {
        None => "–",
        Some((true, _)) => "append-only file",
        Some((false, Some(true))) => "snapshots",
        Some((false, Some(false))) => "none",
        Some((false, None)) => "no append-only file",
    }
}

pub(crate) async fn nodes_json(site: &Site) -> Value {
    let snapshot = site.snapshots.nodes().await;
    let process = snapshot
        .map(|snapshot| json!({ "diagnosis": snapshot.value, "look": snapshot_json(&snapshot) }));
    json!({ "process": process })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_facts_are_dashes() {
        let health = NodeHealth::voting("node");
        assert_eq!((memory(&health), persistence(&health)), ("–".into(), "–"));
        assert_eq!((clock(&health), state(&health.state)), ("–".into(), "voting"));
    }
}

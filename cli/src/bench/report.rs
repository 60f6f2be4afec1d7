//! What was measured, as text and as JSON.

use std::{fmt::Write, time::Duration};

use serde_json::{Value, json};
use tower_redlock::node::NodeHealth;

use super::load::Phase;
use crate::{
    output::{Column, Table, shown, time},
    settle::voting,
};

const COLUMNS: [Column; 6] = [
    Column::right("TASKS"),
    Column::right("CYCLES/S"),
    Column::right("P50"),
    Column::right("P99"),
    Column::right("MAX"),
    Column::right("ERRORS"),
];

pub(super) fn text(health: &[NodeHealth], phases: &[Phase]) -> String {
    let mut text = format!("{} of {} nodes vote\n", voting(health), health.len());
    for node in health {
        let trip = node.round_trip.map_or_else(|| "unknown".into(), time);
        // Writing to a string does not fail.
        let _ = writeln!(text, "    {}: {}, round trip {trip}", shown(&node.name), node.state);
    }
    text.push_str("\nacquire and release:\n");
    let mut table = Table::new(COLUMNS);
    for phase in phases {
        let latency = |value: Option<Duration>| value.map_or_else(|| "-".into(), time);
        text.push_str(&table.row([
            phase.tasks.to_string(),
            format!("{:.0}", rate(phase)),
            latency(phase.latencies.percentile(50)),
            latency(phase.latencies.percentile(99)),
            latency((phase.latencies.count() > 0).then(|| phase.latencies.longest())),
            phase.errors.to_string(),
        ]));
    }
    text.push_str(&table.end());
    if let Some(error) = phases.iter().find_map(|phase| phase.error.as_ref()) {
        let _ = writeln!(text, "\nfirst error: {error}");
    }
    text
}

pub(super) fn json(health: &[NodeHealth], phases: &[Phase]) -> Value {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let node = |node: &NodeHealth| {
        json!({
            "name": &*node.name,
            "votes": node.is_voting(),
            "round_trip_micros": node.round_trip.map(micros),
        })
    };
    let run = |phase: &Phase| {
        json!({
            "tasks": phase.tasks,
            "elapsed_ms": u64::try_from(phase.elapsed.as_millis()).unwrap_or(u64::MAX),
            "cycles": phase.latencies.count(),
            "cycles_per_second": rate(phase).round(),
            "p50_micros": phase.latencies.percentile(50).map(micros),
            "p99_micros": phase.latencies.percentile(99).map(micros),
            "max_micros": micros(phase.latencies.longest()),
            "errors": phase.errors,
            "first_error": phase.error,
        })
    };
    json!({
        "nodes": health.iter().map(node).collect::<Vec<_>>(),
        "runs": phases.iter().map(run).collect::<Vec<_>>(),
    })
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn rate(phase: &Phase) -> f64 {
    let seconds = phase.elapsed.as_secs_f64();
    if seconds > 0.0 { phase.latencies.count() as f64 / seconds } else { 0.0 }
}

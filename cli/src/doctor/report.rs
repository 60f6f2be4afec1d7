//! The diagnosis of the set, with the commands of this program in its advice: as text, as JSON, and as an
//! exit code.

use std::time::Duration;

use serde_json::{Value, json};
use tower_redlock::{
    Redlock,
    diagnosis::{Advice, Diagnosis, NodeDiagnosis, Severity, Verdict},
    error::Reason,
    node::{ClockOffset, Memory, Persistence},
    schedule::zone_database_version,
};

use crate::{
    client::Client,
    exit::Failure,
    output::{
        indented, paint, shown, shown_or,
        terminal::{GREEN, RED, YELLOW},
        time,
    },
    settings::Settings,
};

/// Exit codes beside success; `--help` explains them.
pub(super) const DEGRADED: u8 = 1;
const NO_QUORUM: u8 = 2;

/// What this program adds to the advice with a code.
const COMMANDS: [(&str, &str); 4] = [
    ("embedded", "REDLOCK_NODES=redis://…,redis://…,redis://… or --config FILE"),
    ("max-ttl", "redlock lower-max-ttl"),
    ("other-layout", "redlock adopt --from WRONG-NODES, or redlock adopt --from OLD-NODES"),
    ("probation", "redlock doctor --wait"),
];

pub(crate) async fn diagnose(redlock: &Redlock, probe: bool) -> Diagnosis {
    with_commands(redlock.diagnosis().probe(probe).await)
}

/// Adds to each advice the command that carries it out.
pub(crate) fn with_commands(mut diagnosis: Diagnosis) -> Diagnosis {
    for advice in &mut diagnosis.advice {
        if let Some((_, command)) = COMMANDS.iter().find(|(code, _)| *code == advice.code) {
            advice.todo.push_str(": ");
            advice.todo.push_str(command);
        }
    }
    diagnosis
}

pub(crate) fn exit_code(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Healthy => 0,
        Verdict::Degraded => DEGRADED,
        _ => NO_QUORUM,
    }
}

/// Prints the report.
pub(crate) fn show(diagnosis: &Diagnosis, client: &Client) -> Result<(), Failure> {
    client.output.show(&report_json(diagnosis, &client.settings), &report(diagnosis))
}

pub(crate) fn report_json(diagnosis: &Diagnosis, settings: &Settings) -> Value {
    json!({
        "verdict": diagnosis.verdict().to_string(),
        "exit_code": exit_code(diagnosis.verdict()),
        "summary": diagnosis.summary(),
        "voting": diagnosis.voting(),
        "quorum": diagnosis.quorum(),
        "prefix": settings.prefix(),
        "embedded": !settings.has_nodes(),
        "time_zones": zone_database_version(),
        "nodes": diagnosis.nodes,
        "findings": diagnosis.advice.iter().map(finding).collect::<Vec<_>>(),
    })
}

fn finding(advice: &Advice) -> Value {
    json!({
        "severity": advice.severity,
        "code": advice.code,
        "node": advice.node,
        "what": advice.what,
        "do": advice.todo,
    })
}

pub(super) fn report(diagnosis: &Diagnosis) -> String {
    let zones = zone_database_version().unwrap_or("unknown");
    let mut text: Vec<_> = diagnosis.nodes.iter().map(node).collect();
    text.push(format!("time zone database of this command: {zones}\n\n"));
    // Advice for several nodes is printed once.
    for group in diagnosis.advice.chunk_by(|a, b| a.code == b.code && a.todo == b.todo) {
        for alike in group.chunk_by(|a, b| (a.severity, &a.what) == (b.severity, &b.what)) {
            let advice = &alike[0];
            let color = if advice.severity == Severity::Problem { RED } else { YELLOW };
            let severity = paint(color, &format!("{:<7}", advice.severity.to_string()));
            let nodes: Vec<_> = alike.iter().filter_map(|one| one.node.as_deref()).collect();
            let nodes: Vec<_> = nodes.into_iter().map(shown).collect();
            let nodes = if nodes.is_empty() { String::new() } else { nodes.join(", ") + ": " };
            text.push(format!("{severity}  {nodes}{}\n", shown(&advice.what)));
        }
        text.push(format!("         do: {}\n\n", shown(&group[0].todo)));
    }
    text.push(format!("{}: {}\n", verdict(diagnosis), diagnosis.summary()));
    text.concat()
}

/// The verdict in capitals, and in its colour.
pub(crate) fn verdict(diagnosis: &Diagnosis) -> String {
    let color = match diagnosis.verdict() {
        Verdict::Healthy => GREEN,
        Verdict::Degraded => YELLOW,
        _ => RED,
    };
    paint(color, &diagnosis.verdict().to_string().to_uppercase())
}

fn node(node: &NodeDiagnosis) -> String {
    let health = &node.health;
    let head = format!("{}  {}\n", shown(&health.name), shown(&node.state()));
    if health.clock.is_none() || health.role().is_none() {
        return head;
    }
    let start = |id: &Option<_>| {
        let start = |id: &str| shown(&id.chars().take(16).collect::<String>());
        id.as_deref().map_or("unknown".into(), start)
    };
    let version = health.version.as_deref();
    head + &indented([
        format!(
            "{}, version {}, round trip {}, {}",
            health.kind.map_or("server unknown".into(), |kind| kind.to_string()),
            shown_or(version, "unknown"),
            health.round_trip.map_or("unknown".into(), time),
            health.clock.map_or("clock unknown".into(), clock),
        ),
        format!(
            "at {}, run {}, incarnation {}",
            shown_or(health.address.as_deref(), "an unknown address"),
            start(&health.run_id),
            health.incarnation.as_deref().unwrap_or("unknown"),
        ),
        format!(
            "{}; {}; max_ttl {}",
            health.memory.as_ref().map_or("memory limit unknown".into(), memory),
            health.persistence.map_or("persistence unknown", persistence),
            health.max_ttl.map_or("unknown".into(), time),
        ),
        format!(
            "{} under the prefix, {} pending releases of this client",
            keys(node.lock_keys.as_ref()),
            health.unacknowledged
        ),
    ])
}

fn keys(count: Option<&Result<u64, Reason>>) -> String {
    match count {
        Some(Ok(1)) => "1 lock key".into(),
        Some(Ok(count)) => format!("{count} lock keys"),
        _ => "an unknown number of lock keys".into(),
    }
}

fn clock(offset: ClockOffset) -> String {
    let off = time(Duration::from_micros(offset.ahead_micros.unsigned_abs()));
    let sign = if offset.ahead_micros < 0 { '-' } else { '+' };
    format!("clock {sign}{off} (±{})", time(offset.uncertainty))
}

fn memory(memory: &Memory) -> String {
    match memory.limit {
        0 => format!("no memory limit ({})", memory.policy),
        limit => format!("memory limit {} MiB ({})", limit / (1 << 20), memory.policy),
    }
}

fn persistence(kept: Persistence) -> &'static str {
    match (kept.aof, kept.snapshots) {
        (true, Some(true)) => "append-only file and snapshots",
        (true, _) => "append-only file",
        (false, Some(true)) => "snapshots",
        (false, Some(false)) => "no persistence",
        (false, None) => "no append-only file, snapshots unknown",
    }
}

//! The report as text.

use std::{fmt::Write, time::Duration};

use tower_redlock::{
    diagnosis::{Diagnosis, NodeDiagnosis, Severity, Verdict},
    error::Reason,
    node::{ClockOffset, Memory, Persistence},
    schedule::zone_database_version,
};

use crate::output::{Color, Style, shown, time};

pub(super) fn report(diagnosis: &Diagnosis, style: Style) -> String {
    let mut text = String::new();
    for examined in &diagnosis.nodes {
        node(&mut text, examined);
    }
    let zones = zone_database_version().unwrap_or("unknown");
    // Writing to a string does not fail.
    let _ = writeln!(text, "time zone database of this command: {zones}\n");
    // Advice for several nodes is printed once.
    for group in diagnosis.advice.chunk_by(|a, b| a.code == b.code && a.todo == b.todo) {
        for advice in group {
            let color = match advice.severity {
                Severity::Problem => Color::Red,
                _ => Color::Yellow,
            };
            let severity = style.paint(color, &format!("{:<7}", advice.severity.to_string()));
            let node =
                advice.node.as_ref().map_or(String::new(), |node| format!("{}: ", shown(node)));
            // Writing to a string does not fail.
            let _ = writeln!(text, "{severity}  {node}{}", shown(&advice.what));
        }
        let _ = writeln!(text, "         do: {}\n", shown(&group[0].todo));
    }
    let _ = writeln!(text, "{}: {}", verdict(diagnosis, style), diagnosis.summary());
    text
}

/// The verdict in capitals, and in its colour.
pub(crate) fn verdict(diagnosis: &Diagnosis, style: Style) -> String {
    let color = match diagnosis.verdict() {
        Verdict::Healthy => Color::Green,
        Verdict::Degraded => Color::Yellow,
        _ => Color::Red,
    };
    style.paint(color, &diagnosis.verdict().to_string().to_uppercase())
}

fn node(text: &mut String, node: &NodeDiagnosis) {
    let health = &node.health;
    let _ = writeln!(text, "{}  {}", shown(&health.name), shown(&node.state()));
    if health.clock.is_some() && health.role().is_some() {
        let _ = writeln!(
            text,
            "    {}, {}, round trip {}, {}",
            health.kind.map_or("server unknown".into(), |kind| kind.to_string()),
            health
                .version
                .as_ref()
                .map_or("version unknown".into(), |v| format!("version {}", shown(v))),
            health.round_trip.map_or("unknown".into(), time),
            health.clock.map_or("clock unknown".into(), clock),
        );
        let short = |id: &Option<_>| {
            id.as_deref().map_or("unknown".into(), |id: &str| {
                shown(&id.chars().take(16).collect::<String>())
            })
        };
        let _ = writeln!(
            text,
            "    at {}, run {}, incarnation {}",
            health.address.as_deref().map_or("an unknown address".into(), shown),
            short(&health.run_id),
            health.incarnation.as_deref().unwrap_or("unknown"),
        );
        let _ = writeln!(
            text,
            "    {}; {}; max_ttl {}",
            health.memory.as_ref().map_or("memory limit unknown".into(), memory),
            health.persistence.map_or("persistence unknown".into(), persistence),
            health.max_ttl.map_or("unknown".into(), time),
        );
        let _ = writeln!(
            text,
            "    {} under the prefix, {} of our releases pending",
            keys(node.lock_keys.as_ref()),
            health.pending_releases
        );
    }
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

fn persistence(kept: Persistence) -> String {
    match (kept.aof, kept.snapshots) {
        (true, Some(true)) => "append-only file and snapshots",
        (true, _) => "append-only file",
        (false, Some(true)) => "snapshots",
        (false, Some(false)) => "no persistence",
        (false, None) => "no append-only file, snapshots unknown",
    }
    .into()
}

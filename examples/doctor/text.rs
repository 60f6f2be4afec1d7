//! The report as text.

use std::{fmt::Write, time::Duration};

use tower_redlock::{
    error::Reason,
    node::{ClockOffset, Memory, NodeState, Persistence},
};

use crate::{examine::Seen, verdict::Report};

pub(crate) fn report(report: &Report) -> String {
    let mut text = String::new();
    for seen in &report.seen {
        node(&mut text, seen);
    }
    text.push('\n');
    // Advice for several nodes is printed once.
    for group in report.findings.chunk_by(|a, b| a.code == b.code && a.todo == b.todo) {
        for finding in group {
            let severity = finding.severity.name();
            let node = finding.node.as_ref().map_or(String::new(), |node| format!("{node}: "));
            let _ = writeln!(text, "{severity:<7}  {node}{}", finding.what);
        }
        let _ = writeln!(text, "         do: {}\n", group[0].todo);
    }
    // Writing to a string does not fail.
    let verdict = report.verdict.name().to_uppercase();
    let _ = writeln!(text, "{verdict}: {}", report.summary());
    text
}

fn node(text: &mut String, seen: &Seen) {
    let health = &seen.health;
    let _ = writeln!(text, "{}  {}", health.name, state(seen));
    if health.run_id.is_some() && health.role().is_some() {
        let _ = writeln!(
            text,
            "    {}, round trip {}, {}",
            health.version.as_ref().map_or("version unknown".into(), |v| format!("version {v}")),
            health.round_trip.map_or("unknown".into(), time),
            health.clock.map_or("clock unknown".into(), clock),
        );
        let short = |id: &Option<_>| {
            id.as_deref()
                .map_or("unknown".into(), |id: &str| id.chars().take(16).collect::<String>())
        };
        let _ = writeln!(
            text,
            "    run {}, incarnation {}",
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
            keys(&seen.keys),
            health.pending_releases
        );
    }
}

/// Leaves out the age of the state, as doctor has only started.
pub(crate) fn state(seen: &Seen) -> String {
    let state = match &seen.health.state {
        NodeState::Down { reason: Reason::NotConnected(why), .. } => format!("down: {why}"),
        NodeState::Down { reason, .. } => format!("down: {reason}"),
        NodeState::Refusing { reason: Reason::OtherLayout { .. }, .. } => {
            "no vote: it belongs to another set of nodes".into()
        }
        NodeState::Refusing { reason, .. } => format!("no vote: {reason}"),
        state => state.to_string(),
    };
    match &seen.vote {
        Some(Ok(took)) => format!("{state}, a vote takes {}", time(*took)),
        Some(Err(reason)) if seen.health.is_voting() => format!("no vote: {reason}"),
        _ => state,
    }
}

fn keys(count: &Result<u64, Reason>) -> String {
    match count {
        Ok(1) => "1 lock key".into(),
        Ok(count) => format!("{count} lock keys"),
        Err(_) => "an unknown number of lock keys".into(),
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

/// A time with one decimal digit at most.
pub(crate) fn time(time: Duration) -> String {
    if time.subsec_nanos() == 0 { format!("{time:?}") } else { format!("{time:.1?}") }
}

//! The report as text.

use std::{fmt::Write, time::Duration};

use tower_redlock::{
    diagnosis::{Diagnosis, NodeDiagnosis},
    error::Reason,
    node::{ClockOffset, Memory, Persistence},
};

pub(crate) fn report(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    for examined in &diagnosis.nodes {
        node(&mut text, examined);
    }
    text.push('\n');
    // Advice for several nodes is printed once.
    for group in diagnosis.advice.chunk_by(|a, b| a.code == b.code && a.todo == b.todo) {
        for advice in group {
            let severity = advice.severity.to_string();
            let node = advice.node.as_ref().map_or(String::new(), |node| format!("{node}: "));
            let _ = writeln!(text, "{severity:<7}  {node}{}", advice.what);
        }
        let _ = writeln!(text, "         do: {}\n", group[0].todo);
    }
    // Writing to a string does not fail.
    let verdict = diagnosis.verdict().to_string().to_uppercase();
    let _ = writeln!(text, "{verdict}: {}", diagnosis.summary());
    text
}

fn node(text: &mut String, node: &NodeDiagnosis) {
    let health = &node.health;
    let _ = writeln!(text, "{}  {}", health.name, node.state());
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
            keys(&node.lock_keys),
            health.pending_releases
        );
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

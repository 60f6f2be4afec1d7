//! The report that is printed once.

use std::{fmt::Write, process::ExitCode, time::SystemTime};

use serde_json::json;
use tower_redlock::{Redlock, diagnosis::Diagnosis};

use super::listing::Listing;
use crate::{
    doctor::{diagnose, verdict},
    exit::{Failure, UNAVAILABLE},
    locks::COLUMNS,
    output::{Column, Style, Table, print, print_json, shown, time},
    settings::Settings,
};

pub(super) async fn print_once(
    redlock: &Redlock,
    settings: &Settings,
    limit: usize,
    json: bool,
) -> Result<ExitCode, Failure> {
    let diagnosis = diagnose(redlock, false).await;
    let listing = Listing::read(redlock, limit).await;
    if json {
        print_json(&json!({
            "verdict": diagnosis.verdict().to_string(),
            "summary": diagnosis.summary(),
            "voting": diagnosis.voting(),
            "quorum": diagnosis.quorum(),
            "prefix": settings.prefix(),
            "nodes": diagnosis.nodes,
            "lock_keys": lock_keys(&diagnosis),
            "locks": listing.json(),
        }))?;
    } else {
        print(&text(&diagnosis, &listing, settings.prefix()))?;
    }
    let works = diagnosis.voting() >= diagnosis.quorum();
    Ok(if works { ExitCode::SUCCESS } else { UNAVAILABLE.into() })
}

/// Returns the number of lock keys of the node that has the most.
fn lock_keys(diagnosis: &Diagnosis) -> Option<u64> {
    diagnosis.nodes.iter().filter_map(|node| node.lock_keys.as_ref()?.as_ref().ok()).max().copied()
}

fn text(diagnosis: &Diagnosis, listing: &Listing, prefix: &str) -> String {
    let verdict = verdict(diagnosis, Style::stdout());
    let mut text = format!("{verdict}: {}\n\n", diagnosis.summary());
    let mut nodes =
        Table::new([Column::left("NODE"), Column::right("ROUND TRIP"), Column::left("STATE")]);
    for node in &diagnosis.nodes {
        let trip = node.health.round_trip.map_or_else(|| "-".into(), time);
        text.push_str(&nodes.row([shown(&node.health.name), trip, shown(&node.state())]));
    }
    text.push_str(&nodes.end());
    let keys = lock_keys(diagnosis).map_or_else(|| "unknown".into(), |count| count.to_string());
    // Writing to a string does not fail.
    let _ = writeln!(text, "\nlock keys under the prefix {prefix:?}: {keys}");
    let _ = writeln!(text, "{}", listing.summary());
    let mut locks = Table::new(COLUMNS);
    let now = SystemTime::now();
    let rows: String = listing.locks.iter().map(|lock| locks.row(lock.cells(now))).collect();
    let rest = locks.end();
    if !(rows.is_empty() && rest.is_empty()) {
        let _ = write!(text, "\n{rows}{rest}");
    }
    if let [summary, jobs @ ..] = &listing.job_lines()[..] {
        let _ = write!(text, "\n{summary}\n\n{}\n", jobs.join("\n"));
    }
    text
}

//! The report as JSON.

use serde_json::{Value, json};
use tower_redlock::diagnosis::{Advice, Diagnosis};

use super::exit_code;
use crate::settings::Settings;

pub(crate) fn report(diagnosis: &Diagnosis, settings: &Settings) -> Value {
    json!({
        "verdict": diagnosis.verdict().to_string(),
        "exit_code": exit_code(diagnosis.verdict()),
        "summary": diagnosis.summary(),
        "voting": diagnosis.voting(),
        "quorum": diagnosis.quorum(),
        "prefix": settings.prefix(),
        "embedded": !settings.has_nodes(),
        "time_zones": tower_redlock::schedule::zone_database_version(),
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

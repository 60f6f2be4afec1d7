//! `redlock doctor --check`: tries everything over throw-away servers, and checks the outcome.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tower_redlock::{
    Redlock,
    diagnosis::{Diagnosis, Severity},
    node::EmbeddedNodes,
};

use super::{
    Until,
    checks::{Checks, NODE_TIMEOUT, judge_end, judge_holder, judge_living, judge_report},
    diagnose, json, text, wait,
};
use crate::{
    exit::Failure,
    output::{Style, print, print_json},
    settings::Settings,
};

/// The name of the client that holds locks.
pub(super) const OWNER: &str = "doctor-check";
const WAIT: Duration = Duration::from_secs(60);

pub(super) async fn check(mut settings: Settings, json: bool) -> Result<ExitCode, Failure> {
    // A short max_ttl, as new servers vote after it, and a prefix without other locks.
    let timeout = format!("{NODE_TIMEOUT:?}");
    let changes =
        [("key_prefix", OWNER), ("ttl", "3s"), ("max_ttl", "3s"), ("node_timeout", &timeout)];
    for (name, value) in changes {
        settings.set(name, value);
    }
    let embedded = EmbeddedNodes::new(5);
    let holder = client(&settings, OWNER, &embedded)?;
    let doctor = client(&settings, "doctor", &embedded)?;
    let begun = Instant::now();
    let mut checks = Checks::new(json);

    let ready =
        wait(&doctor, Until::Quorum, WAIT).await && wait(&holder, Until::Quorum, WAIT).await;
    checks.note(ready, format!("a quorum of nodes votes within {WAIT:?}"));
    let diagnosis = diagnose(&doctor, true).await;
    if !json {
        print(&format!("\n{}\n", text::report(&diagnosis, Style::stdout())))?;
    }
    judge_report(&mut checks, &diagnosis, &settings);
    if ready {
        judge_holder(&mut checks, &holder, &doctor, &settings).await?;
        judge_living(&mut checks, &holder, &doctor).await?;
    }
    judge_end(&mut checks, &holder, &doctor, &embedded, &settings).await;

    let broken = checks.broken();
    let kept = checks.promises.len() - broken;
    if json {
        let promises: Vec<Value> = checks
            .promises
            .iter()
            .map(|(held, promise)| json!({ "held": held, "promise": promise }))
            .collect();
        let report = json::report(&diagnosis, &settings);
        print_json(
            &json!({ "kept": kept, "broken": broken, "promises": promises, "report": report }),
        )?;
    } else {
        let problems = count(&diagnosis, Severity::Problem);
        let hints = count(&diagnosis, Severity::Hint);
        print(&format!(
            "\n{} nodes, {} vote; {problems} problems, {hints} hints; {kept} promises kept, {broken} broken; {:.1?}\n",
            diagnosis.nodes.len(),
            diagnosis.voting(),
            begun.elapsed()
        ))?;
    }
    Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn client(settings: &Settings, owner: &str, embedded: &EmbeddedNodes) -> Result<Redlock, Failure> {
    let mut settings = settings.clone();
    settings.set("owner", owner);
    if settings.has_nodes() { settings.build() } else { settings.embedded(embedded) }
}

fn count(diagnosis: &Diagnosis, severity: Severity) -> usize {
    diagnosis.advice.iter().filter(|advice| advice.severity == severity).count()
}

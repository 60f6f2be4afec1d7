//! `redlock adopt`: servers move to another configuration.

use std::{process::ExitCode, time::Duration};

use serde_json::json;
use tower_redlock::{
    Redlock,
    diagnosis::Verdict,
    error::{AdoptError, Reason},
    node::{NodeHealth, NodeState},
};

use crate::{
    client::{Client, settle},
    doctor::{Until, diagnose, report_json, show, wait},
    exit::{CONFIG, Failure, UNAVAILABLE},
    options::{SharedArgs, time as duration},
    output::{Progress, confirm, indented, say, shown, time},
    settings::Settings,
};

/// Time that the wait may take beyond the probation.
const PROBATION_MARGIN: Duration = Duration::from_secs(30);
/// Timeout for each node of both sets, one after the other. Each has 2 s for an answer.
const NODE_TIMEOUT: Duration = Duration::from_secs(3);

/// Moves servers to this configuration, after a confirmation
///
/// Use it after a change of nodes, names or prefix; --from and --from-prefix describe the old set, or the old
/// sets, one for each new one. No client gets a lock for one `max_ttl`; the command waits until a quorum
/// votes again.
#[derive(Debug, clap::Args)]
pub(crate) struct AdoptArgs {
    #[command(flatten)]
    from: FromArgs,
    /// Confirm; required without a terminal
    #[arg(long)]
    yes: bool,
    /// Maximum wait until the new set votes [default: the probation and 30s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// Afterwards, do not ask each node for its vote on a new name, and do not try the commands that need a
    /// permission
    #[arg(long)]
    no_probe: bool,
}

/// How the old set differs from the new one.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
struct FromArgs {
    /// The servers of the old set, as in --nodes
    #[arg(long, value_name = "URLS")]
    from: Option<String>,
    /// The prefix of the old set, if it had another
    #[arg(long, value_name = "PREFIX")]
    from_prefix: Option<String>,
}

impl FromArgs {
    /// Returns the settings of the old set.
    fn change(&self, new: &Settings) -> Result<Settings, Failure> {
        let mut old = new.clone();
        if let Some(urls) = &self.from {
            old.set_nodes("--from", urls)?;
        }
        if let Some(prefix) = &self.from_prefix {
            old.set("key_prefix", prefix.as_str());
        }
        Ok(old)
    }
}

const MEANING: &str = "\
step 1: all nodes of the old set vote (above): nodes that can't be reached keep the old set.
step 2: programs with the new configuration may run beside the old ones, and are not ready yet. If a
        majority of the new servers is blank, start them after step 3.
step 3: now. Adopting stops the old set first: clients with the old configuration get no more locks,
        and the locks that they hold are not renewed. Then every node of the new set begins
        a probation, with the old nodes' fences; no client gets a lock until it is over: one max_ttl.
        It can be run again if it fails half-way.
step 4: programs with the new configuration are ready; stop those with the old one.";

const AFTER: &str = "\
step 4: start the programs with the new configuration where they don't run yet, and stop those with
        the old one: they get no more locks";

pub(crate) async fn adopt(shared: &SharedArgs, args: &AdoptArgs) -> Result<ExitCode, Failure> {
    let client = Client::new(shared)?;
    let (new, output) = (&client.redlock, client.output);
    let old = args.from.change(&client.settings)?.build()?;
    settle(&old).await;
    settle(new).await;
    say(&format!("from the old set:\n{}to the new set:\n{}\n{MEANING}\n", nodes(&old), nodes(new)));
    confirm("Move the servers?", args.yes).await?;

    let limit = NODE_TIMEOUT * u32::try_from(old.nodes().len() + new.nodes().len()).unwrap_or(100);
    let moving = tokio::time::timeout(limit, new.adopt(&old));
    let takes = match Progress::new().during("moving the servers", moving).await {
        Ok(Ok(takes)) => takes,
        Ok(Err(error)) => {
            output.show_json(&json!({ "adopted": false, "error": error.to_string() }))?;
            let code = match &error {
                // Some nodes may have moved: the sets may be without a quorum now.
                AdoptError::OldSet { .. }
                | AdoptError::NewSet { .. }
                | AdoptError::NotMovable { .. }
                | AdoptError::InSet { .. } => UNAVAILABLE,
                _ => CONFIG,
            };
            return Err(Failure::new(code, format!("not adopted: {error}")));
        }
        Err(_) => {
            let message = format!("the move did not end within {limit:?}; run it again");
            return Err(Failure::new(UNAVAILABLE, message));
        }
    };
    // Its connections are of no use: the servers belong to the new set now.
    drop(old);
    say(&format!("step 3: moved; the new set votes in {}\n{AFTER}", time(takes)));
    wait(new, Until::Moved, args.timeout.unwrap_or(takes + PROBATION_MARGIN)).await;
    let diagnosis = diagnose(new, !args.no_probe).await;
    if output.json {
        let report = report_json(&diagnosis, &client.settings);
        output.show_json(&json!({ "adopted": true, "report": report }))?;
    } else {
        show(&diagnosis, &client)?;
    }
    Ok(match diagnosis.verdict() {
        Verdict::Healthy | Verdict::Degraded => ExitCode::SUCCESS,
        _ => UNAVAILABLE.into(),
    })
}

/// Returns a line for each node. The steps explain a node that belongs to another set.
fn nodes(redlock: &Redlock) -> String {
    let line = |node: &NodeHealth| match &node.state {
        NodeState::Refusing { reason: Reason::OtherLayout { found, .. }, .. } => {
            format!("{}: enrolled for [{found}]", node.name)
        }
        _ => node.to_string(),
    };
    indented(redlock.health().iter().map(|node| shown(&line(node))))
}

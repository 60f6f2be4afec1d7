//! The options of `doctor`, and which examination it is.

use std::{process::ExitCode, time::Duration};

use super::{
    check::check,
    report::{DEGRADED, diagnose, exit_code, show},
    wait::{Until, default_timeout, find, restart_json, restart_text, votes_within, wait},
};
use crate::{
    client::{Client, health_beside, quorum, voting},
    exit::Failure,
    options::{SharedArgs, time},
    output::say,
    settings::Settings,
};

const EXIT_CODES: &str = "\
Exit codes:
   0  healthy
   1  degraded: locks work, but something needs attention; with --wait NODE, another server must not be \
restarted; with --check, a check failed
   2  no quorum: no locks at present

Failures have the exit codes of the other commands: 64 wrong usage, 78 wrong or missing settings.";

/// Examines the servers: which of them vote, why the others do not, and what to do
///
/// Enrols servers that have no data of the set, as any client does: give the right settings.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct DoctorArgs {
    /// Wait until all nodes vote, a quorum votes, or all clients see that NODE votes again
    ///
    /// A probation ends only while a client runs. After the restart of a server, wait for its NODE before the
    /// next restart.
    #[arg(long, value_name = "all|quorum|NODE", num_args = 0..=1, default_missing_value = "all")]
    wait: Option<String>,
    /// Limit for --wait [default: 60s, more if a probation takes longer]
    #[arg(long, value_name = "TIME", value_parser = time, requires = "wait")]
    timeout: Option<Duration>,
    /// Do not ask each node for its vote on a new name, and do not try the commands that need a permission
    #[arg(long)]
    no_probe: bool,
    /// Try everything over throw-away servers, or over embedded nodes if no servers are given, under the
    /// prefix doctor-check
    #[arg(long, conflicts_with = "wait")]
    check: bool,
}

pub(crate) async fn doctor(shared: &SharedArgs, args: &DoctorArgs) -> Result<ExitCode, Failure> {
    if args.check {
        return check(Settings::new(shared)?, shared.json).await;
    }
    let client = Client::new(shared)?;
    let timeout = args.timeout.unwrap_or_else(|| default_timeout(client.settings.max_ttl()));
    let until = match args.wait.as_deref() {
        None => None,
        Some("all") => Some(Until::All),
        Some("quorum") => Some(Until::Quorum),
        Some(node) => return wait_for(&client, node, timeout, !args.no_probe).await,
    };
    if let Some(until) = until {
        wait(&client.redlock, until, timeout).await;
    }
    let diagnosis = diagnose(&client.redlock, !args.no_probe).await;
    show(&diagnosis, &client)?;
    Ok(exit_code(diagnosis.verdict()).into())
}

/// Waits until a node votes, and says whether another server may be restarted.
async fn wait_for(
    client: &Client,
    name: &str,
    timeout: Duration,
    probe: bool,
) -> Result<ExitCode, Failure> {
    let (redlock, output) = (&client.redlock, client.output);
    let node = find(&redlock.health(), name)?;
    if !votes_within(redlock, node, timeout).await {
        say(&format!("not within {timeout:?}"));
        let diagnosis = diagnose(redlock, probe).await;
        if output.json {
            let (health, node) = health_beside(redlock, node);
            output.show_json(&restart_json(&health, node, false))?;
        } else {
            show(&diagnosis, client)?;
        }
        return Ok(ExitCode::from(exit_code(diagnosis.verdict()).max(DEGRADED)));
    }
    let (health, node) = health_beside(redlock, node);
    output.show(&restart_json(&health, node, true), &restart_text(&health, node))?;
    let (voting, nodes) = (voting(&health), health.len());
    let is_fine = voting > quorum(nodes) || voting == nodes;
    Ok(if is_fine { ExitCode::SUCCESS } else { DEGRADED.into() })
}

//! Waits until the nodes vote, or until one of them does: a probation ends only while a client runs.

use std::{
    fmt::Write,
    process::ExitCode,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tower_redlock::{
    Redlock,
    node::{NodeHealth, NodeState},
};

use super::{
    args::DoctorArgs,
    diagnose::{DEGRADED, diagnose, exit_code},
    text,
};
use crate::{
    args::SharedArgs,
    exit::Failure,
    output::{Progress, Style, print, print_json, say, shown},
    settings::Settings,
    settle::{quorum, voting},
};

const LOOK: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    All,
    Quorum,
    /// A quorum votes, and no other node is in probation.
    Moved,
}

/// Default limit for a wait: enough for a probation that begins again once.
pub(crate) fn default_timeout(max_ttl: Duration) -> Duration {
    (max_ttl * 2 + Duration::from_secs(10)).max(Duration::from_secs(60))
}

/// Waits, with progress on the standard error. Returns whether the nodes vote in time.
pub(crate) async fn wait(redlock: &Redlock, until: Until, timeout: Duration) -> bool {
    let nodes = redlock.nodes().len();
    let needed = match until {
        Until::All => nodes,
        Until::Quorum | Until::Moved => quorum(nodes),
    };
    let mut progress = Progress::new();
    loop {
        let health = redlock.health();
        let voting = voting(&health);
        let others: Vec<String> = health
            .iter()
            .filter(|node| !node.is_voting())
            .map(|node| shown(&node.to_string()))
            .collect();
        let others =
            if others.is_empty() { String::new() } else { format!("; {}", others.join("; ")) };
        let line = format!("{voting} of {nodes} nodes vote, waiting for {needed}{others}");
        progress.tell(&summary(&health), &line);
        let in_probation = |node: &NodeHealth| matches!(node.state, NodeState::Probation { .. });
        if voting >= needed && !(until == Until::Moved && health.iter().any(in_probation)) {
            return true;
        }
        if progress.elapsed() >= timeout {
            progress.end(&format!("not within {timeout:?}"));
            return false;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The states of all nodes without their times.
fn summary(health: &[NodeHealth]) -> String {
    let one = |node: &NodeHealth| match &node.state {
        NodeState::Voting => 'v',
        NodeState::Connecting => 'c',
        NodeState::Probation { remaining, .. } if remaining.is_zero() => 'w',
        NodeState::Probation { .. } => 'p',
        NodeState::Refusing { .. } => 'r',
        _ => 'd',
    };
    health.iter().map(one).collect()
}

/// Every client checks a node once a second, so all of them have noticed by then that it votes.
const SEEN_BY_ALL: Duration = Duration::from_secs(2);

pub(super) async fn wait_for(
    redlock: &Redlock,
    name: &str,
    settings: &Settings,
    shared: &SharedArgs,
    args: &DoctorArgs,
) -> Result<ExitCode, Failure> {
    let node = find(&redlock.health(), name)?;
    let timeout = args.timeout.unwrap_or_else(|| default_timeout(settings.max_ttl()));
    if !votes_within(redlock, node, timeout).await {
        say(&format!("not within {timeout:?}"));
        let diagnosis = diagnose(redlock, !args.no_probe).await;
        if shared.json {
            print_json(&outcome(&redlock.health(), node, false))?;
        } else {
            print(&text::report(&diagnosis, Style::stdout()))?;
        }
        return Ok(ExitCode::from(exit_code(diagnosis.verdict()).max(DEGRADED)));
    }
    let health = redlock.health();
    let (voting, nodes) = (voting(&health), health.len());
    let needed = quorum(nodes);
    if shared.json {
        print_json(&outcome(&health, node, true))?;
    } else {
        print(&verdict(&health, node))?;
    }
    let fine = voting > needed || voting == nodes;
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::from(DEGRADED) })
}

/// Says whether another server may be restarted.
fn verdict(health: &[NodeHealth], node: usize) -> String {
    let (voting, nodes) = (voting(health), health.len());
    let needed = quorum(nodes);
    let vote = format!("{} votes again; {voting} of {nodes} nodes vote", shown(&health[node].name));
    if voting > needed {
        format!("{vote}: another server may be restarted\n")
    } else if voting == nodes {
        format!("{vote}; with so few, the restart of any stops all locks for one max_ttl\n")
    } else {
        let mut text = format!("{vote}, {needed} are needed: do not restart another server yet\n");
        for node in health.iter().filter(|node| !node.is_voting()) {
            // Writing to a string does not fail.
            let _ = writeln!(text, "    {}", shown(&node.to_string()));
        }
        text
    }
}

/// Finds a node by name; the database may be left out where it is 0.
fn find(health: &[NodeHealth], name: &str) -> Result<usize, Failure> {
    let is_it = |node: &NodeHealth| {
        *node.name == *name || node.name.strip_suffix("/0").is_some_and(|host| host == name)
    };
    let names = || shown(&health.iter().map(|node| &*node.name).collect::<Vec<_>>().join(", "));
    // Does not repeat the argument, which may be a URL with a password.
    health.iter().position(is_it).ok_or_else(|| {
        Failure::usage(format!("--wait: no node has that name; they are: {}", names()))
    })
}

/// Waits, with each change on the standard error. Returns whether the node votes in time.
async fn votes_within(redlock: &Redlock, node: usize, timeout: Duration) -> bool {
    let mut progress = Progress::new();
    let mut since = None;
    loop {
        let health = redlock.health();
        let (voting, nodes) = (voting(&health), health.len());
        let state = format!("{}, {voting}", kind(&health[node].state));
        let line = format!("{}; {voting} of {nodes} nodes vote", shown(&health[node].to_string()));
        progress.tell(&state, &line);
        if !health[node].is_voting() {
            since = None;
        } else if since.get_or_insert_with(Instant::now).elapsed() >= SEEN_BY_ALL {
            return true;
        }
        if progress.elapsed()
            >= timeout + if since.is_some() { SEEN_BY_ALL } else { Duration::ZERO }
        {
            return false;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Describes the state without its times.
pub(crate) fn kind(state: &NodeState) -> String {
    match state {
        NodeState::Probation { remaining, .. } if remaining.is_zero() => "waits for others".into(),
        NodeState::Probation { .. } => "probation".into(),
        NodeState::Refusing { reason, .. } => format!("refuses: {reason}"),
        NodeState::Down { reason, .. } => format!("down: {reason}"),
        other => other.to_string(),
    }
}

fn outcome(health: &[NodeHealth], node: usize, votes: bool) -> Value {
    let (voting, nodes) = (voting(health), health.len());
    json!({
        "node": &*health[node].name,
        "votes": votes,
        "voting": voting,
        "nodes": nodes,
        "quorum": quorum(nodes),
        "may_restart_another": votes && voting > quorum(nodes),
    })
}

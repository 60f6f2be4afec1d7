//! Waits until the nodes vote, or until one of them does: a probation ends only while a client runs.

use std::{
    error::Error,
    process::ExitCode,
    time::{Duration, Instant},
};

use serde_json::json;
use tower_redlock::{
    Redlock,
    error::Reason,
    node::{NodeHealth, NodeState},
};

use crate::{
    args::{Args, Until},
    diagnose::{DEGRADED, diagnose, exit_code},
    setup::Settings,
    text,
};

/// Limit for the first connections. A server that has not greeted after 2 s is down.
const SETTLE: Duration = Duration::from_millis(3500);
const LOOK: Duration = Duration::from_millis(100);
/// Interval between progress lines while nothing changes.
const TELL: Duration = Duration::from_secs(5);

pub(crate) fn quorum(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// Waits until every node is connected or known to be down, for a limited time.
pub(crate) async fn settle(redlock: &Redlock) {
    let begun = Instant::now();
    let is_passing = |node: &NodeHealth| match &node.state {
        NodeState::Connecting => true,
        // The end of a probation takes one more round trip.
        NodeState::Probation { remaining, .. } => remaining.is_zero(),
        NodeState::Refusing { reason, .. } => {
            matches!(reason, Reason::WrongTag { .. } | Reason::TtlTooLong)
        }
        _ => false,
    };
    while begun.elapsed() < SETTLE && redlock.health().iter().any(is_passing) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The default of `--timeout`: enough for a probation that begins again once.
pub(crate) fn default_timeout(settings: &Settings) -> Duration {
    (settings.max_ttl * 2 + Duration::from_secs(10)).max(Duration::from_secs(60))
}

/// Waits, with progress on the standard error. Returns whether the nodes vote in time.
pub(crate) async fn wait(redlock: &Redlock, until: Until, timeout: Duration) -> bool {
    let begun = Instant::now();
    let nodes = redlock.nodes().len();
    let needed = match until {
        Until::All => nodes,
        Until::Quorum | Until::Moved => quorum(nodes),
    };
    let (mut told, mut at) = (String::new(), begun);
    loop {
        let health = redlock.health();
        let voting = health.iter().filter(|node| node.is_voting()).count();
        let changed = summary(&health);
        if changed != told || at.elapsed() >= TELL {
            let others: Vec<String> =
                health.iter().filter(|node| !node.is_voting()).map(ToString::to_string).collect();
            let others =
                if others.is_empty() { String::new() } else { format!("; {}", others.join("; ")) };
            let elapsed = begun.elapsed().as_secs_f64();
            eprintln!(
                "{elapsed:5.1} s  {voting} of {nodes} nodes vote, waiting for {needed}{others}"
            );
            (told, at) = (changed, Instant::now());
        }
        let in_probation = |node: &NodeHealth| matches!(node.state, NodeState::Probation { .. });
        if voting >= needed && !(until == Until::Moved && health.iter().any(in_probation)) {
            return true;
        }
        if begun.elapsed() >= timeout {
            eprintln!("{:5.1} s  not within {timeout:?}", begun.elapsed().as_secs_f64());
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

pub(crate) async fn wait_for(
    redlock: &Redlock,
    name: &str,
    settings: &Settings,
    args: &Args,
) -> Result<ExitCode, Box<dyn Error>> {
    let node = find(&redlock.health(), name)?;
    let timeout = args.timeout.unwrap_or_else(|| default_timeout(settings));
    if !votes_within(redlock, node, timeout).await {
        eprintln!("not within {timeout:?}");
        let diagnosis = diagnose(redlock, args.probe).await;
        if args.json {
            println!("{:#}", outcome(&redlock.health(), node, false));
        } else {
            print!("{}", text::report(&diagnosis));
        }
        return Ok(ExitCode::from(exit_code(diagnosis.verdict()).max(DEGRADED)));
    }
    let health = redlock.health();
    let (voting, nodes) = (voting(&health), health.len());
    let needed = quorum(nodes);
    let vote = format!("{} votes again; {voting} of {nodes} nodes vote", health[node].name);
    if args.json {
        println!("{:#}", outcome(&health, node, true));
    } else if voting > needed {
        println!("{vote}: another server may be restarted");
    } else if voting == nodes {
        println!("{vote}; with so few, the restart of any stops all locks for one max_ttl");
    } else {
        println!("{vote}, {needed} are needed: do not restart another server yet");
        health.iter().filter(|node| !node.is_voting()).for_each(|node| println!("    {node}"));
    }
    let fine = voting > needed || voting == nodes;
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::from(DEGRADED) })
}

/// Finds a node by name; the database may be left out where it is 0.
fn find(health: &[NodeHealth], name: &str) -> Result<usize, String> {
    let is_it = |node: &NodeHealth| {
        *node.name == *name || node.name.strip_suffix("/0").is_some_and(|host| host == name)
    };
    let names = || health.iter().map(|node| &*node.name).collect::<Vec<_>>().join(", ");
    // Does not repeat the argument, which may be a URL with a password.
    health
        .iter()
        .position(is_it)
        .ok_or_else(|| format!("--wait: no node has that name; they are: {}", names()))
}

/// Waits, with each change on the standard error. Returns whether the node votes in time.
async fn votes_within(redlock: &Redlock, node: usize, timeout: Duration) -> bool {
    let begun = Instant::now();
    let (mut told, mut at) = (String::new(), begun);
    let mut since = None;
    loop {
        let health = redlock.health();
        let current = format!("{}, {}", kind(&health[node].state), voting(&health));
        if told != current || at.elapsed() >= TELL {
            let (elapsed, voting) = (begun.elapsed().as_secs_f64(), voting(&health));
            let nodes = health.len();
            eprintln!("{elapsed:5.1} s  {}; {voting} of {nodes} nodes vote", health[node]);
            (told, at) = (current, Instant::now());
        }
        if !health[node].is_voting() {
            since = None;
        } else if since.get_or_insert_with(Instant::now).elapsed() >= SEEN_BY_ALL {
            return true;
        }
        if begun.elapsed() >= timeout + if since.is_some() { SEEN_BY_ALL } else { Duration::ZERO } {
            return false;
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn voting(health: &[NodeHealth]) -> usize {
    health.iter().filter(|node| node.is_voting()).count()
}

/// Describes the state without its times.
fn kind(state: &NodeState) -> String {
    match state {
        NodeState::Probation { remaining, .. } if remaining.is_zero() => "waits for others".into(),
        NodeState::Probation { .. } => "probation".into(),
        NodeState::Refusing { reason, .. } => format!("refuses: {reason}"),
        NodeState::Down { reason, .. } => format!("down: {reason}"),
        other => other.to_string(),
    }
}

fn outcome(health: &[NodeHealth], node: usize, votes: bool) -> serde_json::Value {
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

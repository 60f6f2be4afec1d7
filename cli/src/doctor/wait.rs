//! Waits until the nodes vote, or until one of them does: a probation ends only while a client runs.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tower_redlock::{
    Redlock,
    node::{NodeHealth, NodeState},
};

use crate::{
    client::{has_votes, quorum, sets, voting},
    exit::Failure,
    output::{Progress, indented, say, shown},
};

/// Interval between checks of the nodes.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

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

/// Waits until the nodes vote. Returns whether they do in time.
pub(crate) async fn wait(redlock: &Redlock, until: Until, timeout: Duration) -> bool {
    let nodes = redlock.nodes().len();
    let sets = sets(redlock);
    let needed = |nodes| if until == Until::All { nodes } else { quorum(nodes) };
    let in_all: usize = sets.iter().map(|nodes| needed(*nodes)).sum();
    let in_time = watch(redlock, |health, elapsed| {
        let voting = voting(health);
        let head = format!("{voting} of {nodes} nodes vote, waiting for {in_all}");
        let others = health.iter().filter(|node| !node.is_voting());
        let line = others.fold(head, |line, node| line + "; " + &shown(&node.to_string()));
        let in_probation = |node: &NodeHealth| matches!(node.state, NodeState::Probation { .. });
        let is_moving = until == Until::Moved && health.iter().any(in_probation);
        let summary = health.iter().map(|node| kind(&node.state) + ";").collect();
        let is_done = has_votes(health, &sets, needed) && !is_moving;
        (summary, line, (is_done || elapsed >= timeout).then_some(is_done))
    })
    .await;
    if !in_time {
        say(&format!("not within {timeout:?}"));
    }
    in_time
}

/// Looks at the nodes until the result is known, with progress on the standard error. `judge` gets the time
/// so far, and returns a text that differs after each change, the line to show, and the result.
async fn watch(
    redlock: &Redlock,
    mut judge: impl FnMut(&[NodeHealth], Duration) -> (String, String, Option<bool>),
) -> bool {
    let mut progress = Progress::new();
    loop {
        let (state, line, ended) = judge(&redlock.health(), progress.elapsed());
        progress.tell(&state, &line);
        if let Some(ended) = ended {
            return ended;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
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

/// Every client checks a node once a second, so all of them have noticed by then that it votes.
const PROPAGATION_TIME: Duration = Duration::from_secs(2);

/// Finds a node by name. The database 0 may be left out.
pub(super) fn find(health: &[NodeHealth], name: &str) -> Result<usize, Failure> {
    let has_name = |node: &NodeHealth| {
        *node.name == *name || node.name.strip_suffix("/0").is_some_and(|host| host == name)
    };
    let names = || shown(&health.iter().map(|node| &*node.name).collect::<Vec<_>>().join(", "));
    // Does not repeat the argument, which may be a URL with a password.
    health.iter().position(has_name).ok_or_else(|| {
        Failure::usage(format!("--wait: no node has that name; they are: {}", names()))
    })
}

/// Waits until the node has voted for [`SEEN_BY_ALL`]. Returns whether it votes in time.
pub(super) async fn votes_within(redlock: &Redlock, node: usize, timeout: Duration) -> bool {
    let mut since = None;
    watch(redlock, |health, elapsed| {
        let (voting, nodes) = (voting(health), health.len());
        let state = format!("{}, {voting}", kind(&health[node].state));
        let line = format!("{}; {voting} of {nodes} nodes vote", shown(&health[node].to_string()));
        since = health[node].is_voting().then(|| since.unwrap_or_else(Instant::now));
        let ended = match since {
            Some(since) if since.elapsed() >= PROPAGATION_TIME => Some(true),
            Some(_) => (elapsed >= timeout + PROPAGATION_TIME).then_some(false),
            None => (elapsed >= timeout).then_some(false),
        };
        (state, line, ended)
    })
    .await
}

/// Says whether another server may be restarted.
pub(super) fn restart_text(health: &[NodeHealth], node: usize) -> String {
    let (voting, nodes) = (voting(health), health.len());
    let needed = quorum(nodes);
    let vote = format!("{} votes again; {voting} of {nodes} nodes vote", shown(&health[node].name));
    if voting > needed {
        return format!("{vote}: another server may be restarted\n");
    }
    if voting == nodes {
        return format!(
            "{vote}; in a set of this size, the restart of any server stops all locks for one max_ttl\n"
        );
    }
    let others = health.iter().filter(|node| !node.is_voting());
    let others = indented(others.map(|node| shown(&node.to_string())));
    format!("{vote}, {needed} are needed: do not restart another server yet\n{others}")
}

pub(super) fn restart_json(health: &[NodeHealth], node: usize, votes: bool) -> Value {
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

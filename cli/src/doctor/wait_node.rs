//! Waits until one node votes, between the restarts of two servers.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tower_redlock::{Redlock, node::NodeHealth};

use super::wait::{kind, watch};
use crate::{
    client::{quorum, voting},
    exit::Failure,
    output::{indented, shown},
};

/// Every client checks a node once a second, so all of them have noticed by then that it votes.
const SEEN_BY_ALL: Duration = Duration::from_secs(2);

/// Finds a node by name; the database may be left out where it is 0.
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
            Some(since) if since.elapsed() >= SEEN_BY_ALL => Some(true),
            Some(_) => (elapsed >= timeout + SEEN_BY_ALL).then_some(false),
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

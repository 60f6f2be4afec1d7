//! Waits until the nodes vote: a probation ends only while a client runs.

use std::time::Duration;

use tower_redlock::{
    Redlock,
    node::{NodeHealth, NodeState},
};

use crate::{
    client::{quorum, voting},
    output::{Progress, say, shown},
};

/// Interval between checks of the nodes.
const INTERVAL: Duration = Duration::from_millis(100);

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
    let needed = if until == Until::All { nodes } else { quorum(nodes) };
    let in_time = watch(redlock, |health, elapsed| {
        let voting = voting(health);
        let head = format!("{voting} of {nodes} nodes vote, waiting for {needed}");
        let others = health.iter().filter(|node| !node.is_voting());
        let line = others.fold(head, |line, node| line + "; " + &shown(&node.to_string()));
        let in_probation = |node: &NodeHealth| matches!(node.state, NodeState::Probation { .. });
        let is_moving = until == Until::Moved && health.iter().any(in_probation);
        let summary = health.iter().map(|node| kind(&node.state) + ";").collect();
        let is_done = voting >= needed && !is_moving;
        (summary, line, (is_done || elapsed >= timeout).then_some(is_done))
    })
    .await;
    if !in_time {
        say(&format!("not within {timeout:?}"));
    }
    in_time
}

/// Looks at the nodes until the result is known, with progress on the standard error. `judge` gets the time
/// so far, and returns what changes count, the line to show, and the result.
pub(super) async fn watch(
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
        tokio::time::sleep(INTERVAL).await;
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

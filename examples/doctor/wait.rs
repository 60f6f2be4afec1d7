//! Runs until the nodes vote: a probation ends only while some client runs.

use std::time::{Duration, Instant};

use tower_redlock::{
    Redlock,
    node::{NodeHealth, NodeState},
};

use crate::{args::Until, examine::quorum, setup::Settings};

pub(crate) const LOOK: Duration = Duration::from_millis(100);
/// How often progress is told where nothing changes.
pub(crate) const TELL: Duration = Duration::from_secs(5);

/// How long to wait unless told otherwise: enough for a probation, and one that begins anew.
pub(crate) fn default_timeout(settings: &Settings) -> Duration {
    (settings.max_ttl * 2 + Duration::from_secs(10)).max(Duration::from_secs(60))
}

/// Tells progress on the standard error. Whether they vote before the time is over.
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

/// The nodes' states without their times.
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

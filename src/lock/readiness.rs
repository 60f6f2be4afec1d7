//! Whether enough nodes vote, and what to do if not.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    client::{Client, POLL_INTERVAL},
    settings::Settings,
};
use crate::{
    error::{Reason, SetNumber, prospect},
    membership::other_sets,
    node::{CopyProgress, NodeHealth, NodeState},
    protocol::formulas,
    time::Timestamp,
};

/// Time without progress after which the copying of records counts as stalled. The progress of
/// another client is visible every 2 s.
const STALLED_COPY: Duration = Duration::from_secs(3);

/// Too few nodes vote, or have all records of work that is done. [`Display`](fmt::Display) has the
/// nodes, the reasons, and what to do; so has `Debug`, which a `main` that returns an error prints.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotReady {
    /// The health of each node, in the order of [`Redlock::nodes`](crate::Redlock::nodes); of several
    /// [sets](crate::Redlock::sharded), of the nodes of the first set that is not ready.
    pub nodes: Vec<NodeHealth>,
    /// Number of nodes that have to vote.
    pub quorum: usize,
    /// Whether waiting may help. False if the nodes that can recover by
    /// themselves are no quorum: the table of [codes](crate::diagnosis#codes) says for which reasons
    /// a node can't.
    pub heals: bool,
    /// Which set the nodes are; `None` if there is one.
    pub set: Option<SetNumber>,
    /// The prefix of the keys.
    prefix: Arc<str>,
}

impl NotReady {
    /// Returns the number of nodes that vote.
    pub fn voting(&self) -> usize {
        self.nodes.iter().filter(|node| node.is_voting()).count()
    }
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (voting, nodes, quorum) = (self.voting(), self.nodes.len(), self.quorum);
        if let Some(set) = self.set {
            write!(f, "{set}: ")?;
        }
        if voting >= quorum {
            let copied = self.nodes.iter().filter(|node| has_records(node)).count();
            write!(
                f,
                "{voting} of {nodes} nodes vote, but only {copied} have all records of work that is \
                 done, {quorum} are needed"
            )?;
            for (i, node) in self.nodes.iter().filter(|node| !has_records(node)).enumerate() {
                write!(f, "{} {node}", if i == 0 { ':' } else { ';' })?;
            }
            return Ok(());
        }
        write!(f, "only {voting} of {nodes} nodes vote, {quorum} are needed")?;
        if !self.heals {
            f.write_str(", and waiting does not help")?;
        }
        let missing: Vec<_> = self.nodes.iter().filter(|node| !node.is_voting()).collect();
        let prospects = missing.iter().map(|node| Some(prospect(reason(node)?, &self.prefix)));
        let prospects: Vec<_> = prospects.collect();
        let mut separator = ": ";
        for (i, node) in missing.iter().enumerate() {
            f.write_str(separator)?;
            let (own, next) = (reason(node), missing.get(i + 1).and_then(|next| reason(next)));
            // The long reason of nodes of another set is written once.
            if matches!(own, Some(Reason::OtherLayout { .. })) && own == next {
                f.write_str(&node.name)?;
                separator = ", ";
                continue;
            }
            write!(f, "{node}")?;
            separator = "; ";
            // Written once for consecutive nodes with the same prospect.
            if let Some(prospect) = &prospects[i]
                && prospects.get(i + 1).and_then(Option::as_ref) != Some(prospect)
            {
                write!(f, " (do: {})", prospect.todo)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NotReady({self})")
    }
}

impl std::error::Error for NotReady {}

/// Returns whether the node votes and has all records.
fn has_records(node: &NodeHealth) -> bool {
    node.is_voting() && node.copying.is_none()
}

fn reason(node: &NodeHealth) -> Option<&Reason> {
    match &node.state {
        NodeState::Refusing { reason, .. } | NodeState::Down { reason, .. } => Some(reason),
        NodeState::Voting | NodeState::Connecting | NodeState::Probation { .. } => None,
    }
}

/// Returns whether the node may vote later by itself.
fn heals(node: &NodeHealth, settings: &Settings) -> bool {
    let (NodeState::Refusing { reason, since } | NodeState::Down { reason, since }) = &node.state
    else {
        return true;
    };
    let Some(lasts_after) = prospect(reason, &settings.key_prefix).lasts_after else { return true };
    let taken_over = match reason {
        // A node of an unused set is taken over.
        Reason::OtherLayout { .. } => {
            let longest = node.max_ttl.unwrap_or_default().max(settings.max_ttl);
            other_sets::watch_time(longest, settings.drift_factor)
        }
        _ => Duration::ZERO,
    };
    *since <= taken_over + lasts_after
}

impl Client {
    pub(crate) fn readiness(&self) -> Result<(), NotReady> {
        let quorum = formulas::quorum(self.nodes.len());
        let nodes = self.health();
        if nodes.iter().filter(|node| node.is_voting()).count() >= quorum {
            return Ok(());
        }
        let healing = nodes.iter().filter(|node| heals(node, &self.settings)).count();
        let heals = healing >= quorum;
        Err(self.not_ready(nodes, heals))
    }

    /// Checks [`readiness`](Self::readiness), and that a quorum has all records.
    fn readiness_with_records(&self) -> Result<(), NotReady> {
        self.readiness()?;
        let (nodes, quorum) = (self.health(), formulas::quorum(self.nodes.len()));
        if nodes.iter().filter(|node| has_records(node)).count() >= quorum {
            return Ok(());
        }
        Err(self.not_ready(nodes, true))
    }

    fn not_ready(&self, nodes: Vec<NodeHealth>, heals: bool) -> NotReady {
        let (quorum, set) = (formulas::quorum(nodes.len()), self.settings.place);
        NotReady { nodes, quorum, heals, set, prefix: Arc::clone(&self.settings.key_prefix) }
    }

    /// Waits until a quorum votes and has all records, until waiting does not help, or until
    /// `until`. Waits for records only while their copying makes progress: locks do not need them.
    pub(crate) async fn ready(&self, until: Timestamp) -> Result<(), NotReady> {
        let mut copied = None;
        loop {
            let Err(why) = self.readiness_with_records() else { return Ok(()) };
            let now = self.clock().now();
            if !why.heals || now >= until {
                return Err(why);
            }
            if why.voting() < why.quorum {
                copied = None;
            } else {
                let seen: Vec<_> = why.nodes.iter().map(|node| node.copying.map(amount)).collect();
                match &copied {
                    Some((known, since)) if *known == seen => {
                        if now.saturating_duration_since(*since) >= STALLED_COPY {
                            crate::log::warn!(%why, "ready for locks, not for once");
                            return Ok(());
                        }
                    }
                    _ => copied = Some((seen, now)),
                }
            }
            self.sleep(POLL_INTERVAL).await;
        }
    }
}

const fn amount(progress: CopyProgress) -> (u64, u64) {
    (progress.records, progress.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Redlock;

    fn refusing(reason: Reason, seconds: u64) -> NodeHealth {
        let since = Duration::from_secs(seconds);
        let state = NodeState::Refusing { reason, since };
        NodeHealth { state, ..NodeHealth::voting("a") }
    }

    fn other_layout() -> Reason {
        Reason::OtherLayout { found: "2 nodes".into(), ours: "3 nodes".into() }
    }

    /// Returns whether the node heals, for a `max_ttl` of 10 s.
    fn heals(node: &NodeHealth) -> bool {
        super::heals(node, &Redlock::embedded().client().settings)
    }

    #[test]
    fn other_layout_heals_until_taken_over() {
        assert!(heals(&refusing(other_layout(), 24)));
        assert!(!heals(&refusing(other_layout(), 25)));
        let longer = Some(Duration::from_secs(20));
        let node = NodeHealth { max_ttl: longer, ..refusing(other_layout(), 25) };
        assert!(heals(&node), "its clients have longer TTLs");
    }

    #[test]
    fn configuration_faults_do_not_heal() {
        let text: Arc<str> = "no".into();
        let faults = [
            Reason::Auth(Arc::clone(&text)),
            Reason::NoPermission(Arc::clone(&text)),
            Reason::SameServer { other: Arc::clone(&text) },
            Reason::Evicts { policy: text },
        ];

        for reason in faults {
            assert!(heals(&refusing(reason.clone(), 1)), "not confirmed: {reason}");
            assert!(!heals(&refusing(reason.clone(), 3)), "{reason}");
        }
    }

    #[test]
    fn outages_and_probations_heal() {
        let hour = 3600;
        for reason in [Reason::ReadOnly, Reason::OutOfMemory, Reason::NotConnected("no".into())] {
            assert!(heals(&refusing(reason, hour)));
        }
        assert!(heals(&NodeHealth::voting("a")));
    }

    #[test]
    fn text_names_nodes_that_copy() {
        let copying = Some(CopyProgress::new(7, 700, Duration::from_secs(1)));
        let copies = |name| NodeHealth { copying, ..NodeHealth::voting(name) };
        let nodes = vec![NodeHealth::voting("one"), copies("two"), copies("three")];
        let text =
            NotReady { nodes, quorum: 2, heals: true, set: None, prefix: "p".into() }.to_string();
        let begin = "3 of 3 nodes vote, but only 1 have all records of work that is done, 2 are needed: \
                     two: voting, 7 records";
        assert!(text.starts_with(begin), "{text}");
        assert!(!text.contains("one:"), "{text}");
    }

    #[test]
    fn main_that_returns_it_prints_what_to_do() {
        let auth = refusing(Reason::Auth("WRONGPASS".into()), 3);
        let error =
            NotReady { nodes: vec![auth], quorum: 1, heals: false, set: None, prefix: "p".into() };

        assert_eq!(format!("{error:?}"), format!("NotReady({error})"));
        assert!(format!("{error:?}").contains("(do: "), "{error:?}");
    }

    #[test]
    fn text_names_set_and_groups_nodes_of_another() {
        let other = |name: &str| NodeHealth { name: name.into(), ..refusing(other_layout(), 3) };
        let (nodes, set) = (vec![other("one"), other("two")], Some(SetNumber::new(2, 3)));

        let text = NotReady { nodes, quorum: 2, heals: false, set, prefix: "p".into() }.to_string();

        assert!(text.starts_with("set 2 of 3: only 0 of 2 nodes vote"), "{text}");
        assert!(text.contains("does not help: one, two: refusing"), "{text}");
        assert_eq!(text.matches("enrolled for [2 nodes]").count(), 1, "{text}");
    }

    #[test]
    fn text_names_node_reason_and_remedy() {
        let nodes = vec![
            NodeHealth::voting("one"),
            NodeHealth { name: "two".into(), ..refusing(Reason::Auth("WRONGPASS".into()), 3) },
            NodeHealth { name: "three".into(), ..refusing(other_layout(), 3) },
        ];
        let text =
            NotReady { nodes, quorum: 2, heals: false, set: None, prefix: "p".into() }.to_string();
        let begin =
            "only 1 of 3 nodes vote, 2 are needed, and waiting does not help: two: refusing";

        assert!(text.starts_with(begin), "{text}");
        assert!(
            text.contains("WRONGPASS (do: correct the user and the password, in the URL"),
            "{text}"
        );
        assert!(text.contains("enrolled for [2 nodes]"), "{text}");
    }
}

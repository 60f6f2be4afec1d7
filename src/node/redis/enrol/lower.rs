//! Lowers `max_ttl`. The nodes reject longer TTLs at once. Probations use the old value until every
//! lock with a longer TTL has expired.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;

use super::{
    NodeReport, NodeSet,
    node_report::millis,
    record::{self, Change},
};
use crate::{
    error::{Reason, Vote, VoteOutcome, Votes},
    protocol::formulas,
    time::{Clock, Timestamp},
};

/// A lowering in progress: each node's answer, and the time of the last answer.
pub(crate) struct Lowering<'a> {
    set: &'a NodeSet,
    begun: Vec<Result<PreviousMaxTtl, Reason>>,
    since: Timestamp,
    /// The correction of the local clock at that time.
    ahead: Duration,
}

/// The previous limit of a node.
struct PreviousMaxTtl {
    longest: Duration,
    /// What the node stores about it; empty if the limit was not longer.
    stored: Arc<str>,
}

impl<'a> Lowering<'a> {
    /// Lowers the limit of every node to this client's `max_ttl`.
    pub(crate) async fn begin(set: &'a NodeSet) -> Self {
        let nonce = format!("{:016x}", crate::random::number());
        let nodes = 0..set.members().len();
        let begun = join_all(nodes.map(|node| lower(set, node, &nonce))).await;
        Self { set, begun, since: set.clock.now(), ahead: set.clock.ahead() }
    }

    /// Returns the remaining time for which locks with longer TTLs may be held, on the local clock.
    pub(crate) fn remaining(&self) -> Duration {
        let longer = self.begun.iter().flatten().filter(|before| !before.stored.is_empty());
        let Some(longest) = longer.map(|before| before.longest).max() else {
            return Duration::ZERO;
        };
        // As in a probation, corrections of the local clock are not counted.
        let since = self.since + self.set.clock.ahead().saturating_sub(self.ahead);
        let end = since + longest + formulas::drift(longest, self.set.settings.drift_factor);
        end.saturating_duration_since(self.set.clock.now())
    }

    /// Makes probations use the lower value. Returns whether each node accepted that.
    pub(crate) async fn end(self) -> Votes {
        let Self { set, begun, .. } = self;
        let ended = begun.into_iter().enumerate().map(async |(node, before)| {
            let outcome = match before {
                Ok(before) => clear(set, node, &before).await,
                Err(reason) => Err(reason),
            };
            let outcome = outcome.map_or_else(VoteOutcome::NotCounted, |()| VoteOutcome::Granted);
            Vote::new(Arc::clone(set.members()[node].status.name()), outcome)
        });
        Votes::new(join_all(ended).await)
    }
}

/// Number of attempts to change a record that other clients change at the same time.
const ATTEMPTS: usize = 5;

async fn lower(set: &NodeSet, node: usize, nonce: &str) -> Result<PreviousMaxTtl, Reason> {
    let ours = set.settings.max_ttl;
    for _ in 0..ATTEMPTS {
        let report = set.read(node).await?;
        let longest = report.longest_ttl();
        if report.tag.layout() != &*set.layout.hash {
            return Err(foreign(set, &report));
        }
        if longest <= ours {
            return Ok(PreviousMaxTtl { longest, stored: "".into() });
        }
        let stored: Arc<str> = format!("{} {nonce}", millis(longest)).into();
        let change = record::lowering(&report, ours, &stored);
        if set.change(node, &change).await? {
            return Ok(PreviousMaxTtl { longest, stored });
        }
    }
    Err(Reason::Busy)
}

fn foreign(set: &NodeSet, report: &NodeReport) -> Reason {
    if report.tag.text().is_empty() {
        return Reason::WrongTag { found: "".into() };
    }
    let (found, ours) = (Arc::clone(&report.layout), Arc::clone(&set.layout.description));
    Reason::OtherLayout { found, ours }
}

async fn clear(set: &NodeSet, node: usize, before: &PreviousMaxTtl) -> Result<(), Reason> {
    if !before.stored.is_empty() {
        set.change(node, &Change::clearing(&before.stored)).await?;
    }
    // The limit is still above ours if another client lowers it as well.
    let longest = set.read(node).await?.longest_ttl();
    if longest <= set.settings.max_ttl { Ok(()) } else { Err(Reason::MaxTtlRaised { to: longest }) }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{FakeServer, Scripted, report, served},
        *,
    };

    /// A node of the set that keeps this limit.
    fn ours(set: &NodeSet, run: u128, max_ttl: &str) -> FakeServer {
        let tag = report(set, 'a', run, 1).tag;
        FakeServer::new(run, &[("tag", tag.text()), ("max_ttl", max_ttl)])
    }

    #[tokio::test]
    async fn lowering_waits_for_noted_limits() {
        let Scripted { set, mut nodes, clock } = Scripted::new("p");
        // The first node stores no previous limit, as its limit is not longer.
        let mut servers = [ours(&set, 1, "10000"), ours(&set, 2, "20000"), FakeServer::down()];

        let lowering = served(&mut nodes, &mut servers, Lowering::begin(&set)).await;

        assert_eq!(
            [&servers[0], &servers[1]].map(|s| (s.changes, s.field("max_ttl"))),
            [(0, "10000"), (1, "10000")]
        );
        assert!(servers[1].field("longer").starts_with("20000 "));

        let whole = Duration::from_millis(20_000 + 200 + 2);
        assert_eq!(lowering.remaining(), whole);

        clock.advance(Duration::from_secs(5));
        assert_eq!(lowering.remaining(), whole.saturating_sub(Duration::from_secs(5)));

        set.clock.put_forward(Duration::from_secs(9));
        assert_eq!(
            lowering.remaining(),
            whole.saturating_sub(Duration::from_secs(5)),
            "a correction is no time"
        );

        let ended = served(&mut nodes, &mut servers, lowering.end()).await;
        let outcomes: Vec<_> = ended.iter().map(|vote| vote.outcome.clone()).collect();
        let down = VoteOutcome::NotCounted(Reason::Disconnected);
        assert_eq!(outcomes, [VoteOutcome::Granted, VoteOutcome::Granted, down]);
        assert_eq!(servers[1].field("longer"), "");
    }

    #[tokio::test]
    async fn lowering_names_other_sets() {
        let Scripted { set, mut nodes, .. } = Scripted::new("p");
        let theirs = [("tag", "a tag of another set"), ("layout", "theirs")];
        let mut servers =
            [FakeServer::new(1, &theirs), FakeServer::new(2, &[]), ours(&set, 3, "20000")];
        let lowering = served(&mut nodes, &mut servers, Lowering::begin(&set)).await;
        let ended = served(&mut nodes, &mut servers, lowering.end()).await;

        let outcomes: Vec<_> = ended.iter().map(|vote| vote.outcome.clone()).collect();

        assert!(
            matches!(&outcomes[0], VoteOutcome::NotCounted(Reason::OtherLayout { found, .. }) if &**found == "theirs")
        );

        let not_enrolled = Reason::WrongTag { found: "".into() };
        assert_eq!(outcomes[1..], [VoteOutcome::NotCounted(not_enrolled), VoteOutcome::Granted]);
    }

    #[tokio::test]
    async fn raised_limits_fail_the_lowering() {
        let Scripted { set, mut nodes, .. } = Scripted::new("p");
        let mut servers = [1, 2, 3].map(|run| ours(&set, run, "20000"));
        let lowering = served(&mut nodes, &mut servers, Lowering::begin(&set)).await;
        servers[2].fields.insert("max_ttl".into(), "10001".into());
        let ended = served(&mut nodes, &mut servers, lowering.end()).await;
        let raised = Reason::MaxTtlRaised { to: Duration::from_millis(10_001) };
        assert_eq!(ended[2].outcome, VoteOutcome::NotCounted(raised));
    }
}

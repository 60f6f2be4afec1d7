//! Lowers `max_ttl`: the nodes reject longer TTLs at once; probations use the old value until every
//! lock with a longer TTL has expired.

use std::{sync::Arc, time::Duration};

use ::redis::Value;
use futures_util::future::join_all;

use super::{NodeSet, node_report::millis};
use crate::{
    error::{Reason, Vote, VoteOutcome, Votes},
    node::redis::{
        decode::{int, list, text},
        scripts,
        server_error::reason,
    },
    protocol::formulas,
    time::{Clock, Timestamp},
};

/// A lowering under way: each node's answer, and when the last node had answered.
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
    /// The node's note of it; empty if the limit was not longer.
    longer: Arc<str>,
}

impl<'a> Lowering<'a> {
    /// Lowers the limit of every node to this client's `max_ttl`.
    pub(crate) async fn begin(set: &'a NodeSet) -> Self {
        let nonce = format!("{:016x}", crate::random::number());
        let nodes = 0..set.members().len();
        let begun = join_all(nodes.map(|node| lower(set, node, &nonce))).await;
        Self { set, begun, since: set.clock.now(), ahead: set.clock.ahead() }
    }

    /// Returns the time for which longer locks may be left, on the local clock.
    pub(crate) fn remaining(&self) -> Duration {
        let longer = self.begun.iter().flatten().filter(|before| !before.longer.is_empty());
        let Some(longest) = longer.map(|before| before.longest).max() else {
            return Duration::ZERO;
        };
        // As in a probation, corrections of the local clock do not count.
        let since = self.since + self.set.clock.ahead().saturating_sub(self.ahead);
        let end = since + longest + formulas::drift(longest, self.set.settings.drift_factor);
        end.saturating_duration_since(self.set.clock.now())
    }

    /// Has probations use the lower value alone.
    ///
    /// Returns the outcomes if not every node accepted it.
    pub(crate) async fn end(self) -> Result<(), Votes> {
        let Self { set, begun, .. } = self;
        let ended = begun.into_iter().enumerate().map(async |(node, before)| {
            let outcome = match before {
                Ok(before) => clear(set, node, &before).await,
                Err(reason) => Err(reason),
            };
            let outcome = outcome.map_or_else(VoteOutcome::NotCounted, |()| VoteOutcome::Granted);
            Vote::new(Arc::clone(set.members()[node].status.name()), outcome)
        });
        let votes = Votes::new(join_all(ended).await);
        let all = votes.iter().all(|vote| vote.outcome == VoteOutcome::Granted);
        if all { Ok(()) } else { Err(votes) }
    }
}

async fn lower(set: &NodeSet, node: usize, nonce: &str) -> Result<PreviousMaxTtl, Reason> {
    let mut call = set.call(node, scripts::LOWER);
    call.arg(&*set.layout.hash).arg(millis(set.settings.max_ttl)).arg(nonce);
    let items = list(set.ask_with_info(node, call).await?)?;
    let text = |i: usize| items.get(i).map(text).unwrap_or_default();
    match items.first().and_then(int) {
        Some(1) => {
            let longest = Duration::from_millis(items.get(1).and_then(int).unwrap_or(0));
            Ok(PreviousMaxTtl { longest, longer: text(2) })
        }
        _ if text(1).is_empty() => Err(Reason::WrongTag { found: text(1) }),
        _ => {
            let ours = Arc::clone(&set.layout.description);
            Err(Reason::OtherLayout { found: text(2), ours })
        }
    }
}

async fn clear(set: &NodeSet, node: usize, before: &PreviousMaxTtl) -> Result<(), Reason> {
    let mut call = set.call(node, scripts::LOWERED);
    call.arg(&*before.longer);
    let longest = match set.ask_with_info(node, call).await?.first() {
        Some(Value::ServerError(error)) => return Err(reason(error)),
        Some(value) => int(value).map(Duration::from_millis),
        None => None,
    };
    match longest {
        Some(longest) if longest <= set.settings.max_ttl => Ok(()),
        Some(to) => Err(Reason::MaxTtlRaised { to }),
        None => Err(Reason::Protocol("a script did not answer with a number".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{Scripted, text},
        *,
    };

    /// A node of another set; one that is not enrolled.
    fn not_ours() -> [Vec<Value>; 2] {
        [
            vec![Value::Int(4), text("a tag"), text("theirs")],
            vec![Value::Int(4), text(""), text("")],
        ]
    }

    #[tokio::test]
    async fn lowering_waits_for_noted_limits() {
        let Scripted { set, mut nodes, clock } = Scripted::new("p");
        let answering = async {
            // This one notes nothing, as its limit is not longer.
            nodes[0].answer(vec![Value::Int(1), Value::Int(30_000), text("")]).await;
            nodes[1].answer(vec![Value::Int(1), Value::Int(20_000), text("20000 x")]).await;
            nodes[2].fail().await;
        };
        let (lowering, ()) = tokio::join!(Lowering::begin(&set), answering);
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
    }

    /// The outcomes of a lowering, of which each node's first answer is `begun` and the second one `ended`.
    async fn lowered(begun: [Vec<Value>; 3], ended: Value) -> Vec<VoteOutcome> {
        let Scripted { set, mut nodes, .. } = Scripted::new("p");
        let mut begun = begun.into_iter();
        let answering = async {
            for node in &mut nodes {
                node.answer(begun.next().unwrap()).await;
            }
        };
        let (lowering, ()) = tokio::join!(Lowering::begin(&set), answering);
        let answering = async {
            let (_, answer) = nodes[2].next().await;
            let _ = answer.send(Ok(vec![ended]));
        };
        let (ended, ()) = tokio::join!(lowering.end(), answering);
        ended.unwrap_err().iter().map(|vote| vote.outcome.clone()).collect()
    }

    #[tokio::test]
    async fn lowering_names_other_sets() {
        let [theirs, blank] = not_ours();
        let ours = vec![Value::Int(1), Value::Int(20_000), text("20000 x")];
        let outcomes = lowered([theirs, blank, ours], Value::Int(10_000)).await;
        assert!(
            matches!(&outcomes[0], VoteOutcome::NotCounted(Reason::OtherLayout { found, .. }) if &**found == "theirs")
        );
        let not_enrolled = Reason::WrongTag { found: "".into() };
        assert_eq!(outcomes[1..], [VoteOutcome::NotCounted(not_enrolled), VoteOutcome::Granted]);
    }

    #[tokio::test]
    async fn raised_limits_fail_the_lowering() {
        let ours = || vec![Value::Int(1), Value::Int(20_000), text("20000 x")];
        let [theirs, _] = not_ours();
        for (ended, reason) in [
            (Value::Int(10_001), Reason::MaxTtlRaised { to: Duration::from_millis(10_001) }),
            (Value::Nil, Reason::Protocol("a script did not answer with a number".into())),
        ] {
            let outcomes = lowered([theirs.clone(), theirs.clone(), ours()], ended).await;
            assert_eq!(outcomes[2], VoteOutcome::NotCounted(reason));
        }
    }
}

//! Which tick of a job was started last, as far as the nodes tell.
//!
//! A tick is started only by who has its claim on a majority. Each claim goes two rounds, under the
//! fencing token of the job's lock: the nodes first *promise* to take no claim with a smaller token,
//! and tell what they keep; then they are given the new claim. So what a majority told stands still:
//! a claim of somebody slower that is not among it can reach no majority any more.
//!
//! The end of a run is one more claim under the token of the run, and no majority need keep it for
//! it to be true: one node that was told is enough. Who finds such an end stores it again
//! ([`Latest::is_replicated`]), as the next to ask may not reach that node.
//!
//! Source of the two rounds: L. Lamport, *Paxos Made Simple* (2001), section 2.2, with the fencing
//! token as the proposal's number. What differs: a claim that may have been chosen is not proposed
//! again; the tick counts as started.

use std::sync::Arc;

use crate::protocol::{ScheduleMark, TickClaim, TickRun, rules};

/// What is known of a job's latest run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimStatus {
    /// Fewer than a quorum of nodes told.
    TooFew,
    /// It is this one; `None`: there was none.
    Known(Option<Latest>),
    /// It counts as this one, unless nodes that have not told yet say otherwise.
    Likely(Latest),
}

/// The latest run of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latest {
    /// The run.
    pub run: TickRun,
    /// Who claimed it, where that is known.
    pub owner: Option<Arc<str>>,
    /// The run before it, where there was one and it is known.
    pub before: Option<TickRun>,
    /// The job's schedule, where it is known.
    pub schedule: Option<ScheduleMark>,
    /// A quorum of nodes keeps exactly this. Else others may be told less: that the run goes on,
    /// where it has ended.
    pub is_replicated: bool,
}

/// The latest run whose claim a majority keeps, or may keep.
///
/// `told` is what those nodes keep that answered, out of `nodes`. `never_started` are the tokens
/// of claims of one's own that came to nothing: they stand in nobody's way.
pub fn status<'a>(
    told: impl IntoIterator<Item = Option<&'a TickClaim>>,
    nodes: usize,
    never_started: &[u64],
) -> ClaimStatus {
    let quorum = rules::quorum(nodes);
    let told: Vec<Option<&TickClaim>> = told.into_iter().collect();
    if told.len() < quorum {
        return ClaimStatus::TooFew;
    }
    let silent = nodes - told.len();
    let claims = || told.iter().copied().flatten();
    let Some(token) = claims().map(|claim| claim.token).max() else {
        return ClaimStatus::Known(None);
    };
    let same = || claims().filter(|claim| claim.token == token);
    // Any node knows the last claim with a token, if one does: that the run ended, or never began.
    // Claims of earlier versions have no numbers; theirs are for one run, or the later one counts.
    let order =
        |claim: &TickClaim| (claim.number, claim.run.tick, claim.run.attempt, claim.run.ended);
    let Some(last) = same().max_by_key(|claim| order(claim)) else {
        return ClaimStatus::Known(None);
    };
    let latest = || Latest {
        run: last.run,
        owner: Some(Arc::clone(&last.owner)),
        before: last.before,
        schedule: last.schedule.clone(),
        is_replicated: same().filter(|claim| *claim == last).count() >= quorum,
    };
    // Who made the claim had found out what stood before it, and nothing came between.
    let before = || {
        last.before.map(|run| Latest {
            run,
            owner: None,
            before: None,
            schedule: None,
            is_replicated: false,
        })
    };
    match same().count() {
        _ if never_started.contains(&token) => ClaimStatus::Known(before()),
        count if count >= quorum => ClaimStatus::Known(Some(latest())),
        count if count + silent < quorum => ClaimStatus::Known(before()),
        _ => ClaimStatus::Likely(latest()),
    }
}

//! The latest run of a job, from the claims that the nodes store (R12).
//!
//! A job's lock keeps runs apart, but does not show whether a tick was run. So each tick is
//! *claimed* on a majority, under the fencing token `t` of the lock:
//!
//! 1. *Prepare*: each node promises to accept no claim of the job with a token below `t`, and
//!    returns the claim that it keeps. A quorum has to answer.
//! 2. The claim with the greatest token among the answers counts if the nodes that keep it could be
//!    a quorum together with the nodes that did not answer. If not, no majority keeps it or ever
//!    will, since its author cannot complete it any more. Then the previous claim that it
//!    names counts: its author had found it in the same way.
//! 3. *Claim*: the tick, the attempt, the owner and the whole previous claim, with token `t`. The
//!    run starts only when a quorum has accepted it. A claim that a replica made and did not start
//!    does not block that replica.
//!
//! This is Paxos (L. Lamport, *Paxos Made Simple*, 2001, section 2.2) with the fencing token as the
//! proposal number, of which only the last decision is kept. The difference: a claim that may have
//! been chosen is not proposed again; its tick counts as started. So the watermark only rises, and
//! a split vote loses no tick. A node that forgot takes promises and claims from N−q+1 others
//! before it votes (R6). If a majority forgot at once, ticks up to that time count as started.
//!
//! # The end of a run
//!
//! When a run has ended, the same claim is stored with its end: the others see that a tick came
//! during the run, when a delay after the end is over, and, for jobs that claim at the end, that
//! nothing must be repeated. A claim under which nothing was started (a shutdown, a pause) is taken
//! back in the same way: the previous run is stored in its place. Such a second claim has the same
//! token and a greater *number*. A node accepts and learns no smaller number of a token that it
//! keeps; of the claims with the greatest token the one with the greatest number counts, whichever
//! node keeps it. Every later quorum has a node that keeps it, so no end is lost, and no tick is
//! blocked if a node missed it.
//!
//! An end that fewer than a quorum accepted (its replica was disconnected) is true nevertheless,
//! and would be lost with the next quorum without these nodes: a replica that reads it takes the
//! lock within 5 s and stores it under its own token ([`LatestClaim::is_replicated`]). So does one
//! that finds a claim on a minority, which does not count: with other nodes out of reach the same
//! claim may count. Until that is settled, no replica reports its tick as missed.
//!
//! # What was reported
//!
//! A claim also says up to which tick the fates of ticks were reported (missed, given up,
//! interrupted), and when the latest run on demand was ([`TickFates`]). Both are taken over from
//! one claim to the next under the job's lock, so each fate is reported by one replica: the one
//! whose claim says so. A run on demand does not change the run of the tick.
//!
//! # Documents
//!
//! A *document* is a claim without a run. The latest document is the one with the greatest token
//! among the answers of a quorum; its author had prepared, and so read whatever a majority had
//! stored before. Unlike a claim, a document that only a minority stores counts if it is found: it
//! is whole, and its author reported an unknown outcome.

use std::sync::Arc;

use crate::protocol::{FormerClaim, ScheduleMark, TickClaim, TickFates, TickRun, formulas};

/// The latest run of a job, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClaimStatus {
    /// Fewer than a quorum of nodes answered.
    TooFew,
    /// The latest claim; `None` if there is none.
    Known(Option<LatestClaim>),
    /// The latest claim, unless nodes that have not answered yet report another.
    Likely(LatestClaim),
}

/// The latest run of a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LatestClaim {
    /// The run.
    pub run: TickRun,
    /// The owner of the claim, where that is known.
    pub owner: Option<Arc<str>>,
    /// The claim before it, where there was one and it is known.
    pub before: Option<FormerClaim>,
    /// The job's schedule, where it is known.
    pub schedule: Option<ScheduleMark>,
    /// What was reported of the job's ticks, and its latest run on demand.
    pub fates: TickFates,
    /// Whether a quorum of nodes stores exactly this claim. Otherwise other readers may see an
    /// earlier state of the run, such as running instead of ended.
    pub is_replicated: bool,
}

impl LatestClaim {
    /// Returns it as the claim before another one.
    pub fn into_former(self) -> FormerClaim {
        let Self { run, owner, schedule, fates, .. } = self;
        FormerClaim { run, owner, schedule, fates }
    }

    /// Returns the claim that counts in place of a later one.
    pub fn of_former(former: FormerClaim) -> Self {
        let FormerClaim { run, owner, schedule, fates } = former;
        Self { run, owner, before: None, schedule, fates, is_replicated: false }
    }

    /// Returns whether the run of its tick has not ended, and was not reported as interrupted.
    pub fn is_open(&self) -> bool {
        self.run.is_open() && self.fates.told < self.run.tick
    }
}

/// The latest document of a job, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentStatus<'a> {
    /// Fewer than a quorum of nodes answered.
    TooFew,
    /// The claim that holds it; `None` if there is none.
    Known(Option<&'a TickClaim>),
}

/// Returns the claim that holds the latest document: the one with the greatest token, and of these
/// the one with the greatest number.
///
/// A document that a majority stores is among the answers, or a later one. The author of a later
/// one read it before, after a majority had promised: so nothing that a majority stored is lost. A
/// document that only a minority stores may be found or not; its author reported that as unknown.
pub fn latest_document<'a>(
    answers: impl IntoIterator<Item = Option<&'a TickClaim>>,
    nodes: usize,
) -> DocumentStatus<'a> {
    let answers: Vec<Option<&TickClaim>> = answers.into_iter().collect();
    if answers.len() < formulas::quorum(nodes) {
        return DocumentStatus::TooFew;
    }
    let order = |claim: &&TickClaim| (claim.token, claim.number);
    DocumentStatus::Known(answers.into_iter().flatten().max_by_key(order))
}

/// Returns the latest run whose claim a majority stores or may store.
///
/// `answers` are the claims of the nodes that answered, out of `nodes`. `never_started` are the
/// tokens of the caller's own claims that started no run; these are ignored.
pub fn status<'a>(
    answers: impl IntoIterator<Item = Option<&'a TickClaim>>,
    nodes: usize,
    never_started: &[u64],
) -> ClaimStatus {
    let quorum = formulas::quorum(nodes);
    let answers: Vec<Option<&TickClaim>> = answers.into_iter().collect();
    if answers.len() < quorum {
        return ClaimStatus::TooFew;
    }
    let silent = nodes - answers.len();
    let claims = || answers.iter().copied().flatten();
    let Some(token) = claims().map(|claim| claim.token).max() else {
        return ClaimStatus::Known(None);
    };
    let same = || claims().filter(|claim| claim.token == token);
    // Of the claims with one token the last counts, from any node, because it shows that the run
    // ended or never began. Claims of earlier versions have no numbers: of these, the later run
    // counts.
    let order =
        |claim: &TickClaim| (claim.number, claim.run.tick, claim.run.attempt, claim.run.ended);
    let Some(last) = same().max_by_key(|claim| order(claim)) else {
        return ClaimStatus::Known(None);
    };
    let latest = || LatestClaim {
        run: last.run,
        owner: Some(Arc::clone(&last.owner)),
        before: last.before.clone(),
        schedule: last.schedule.clone(),
        fates: last.fates,
        is_replicated: same().filter(|claim| *claim == last).count() >= quorum,
    };
    // The claim names the previous one, and none came in between.
    let before = || last.before.clone().map(LatestClaim::of_former);
    match same().count() {
        _ if never_started.contains(&token) => ClaimStatus::Known(before()),
        count if count >= quorum => ClaimStatus::Known(Some(latest())),
        count if count + silent < quorum => ClaimStatus::Known(before()),
        _ => ClaimStatus::Likely(latest()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(token: u64, number: u32) -> TickClaim {
        TickClaim::of_document(token, number, "owner".into(), format!("{token} {number}").into())
    }

    #[test]
    fn document_of_greatest_token_counts() {
        let (old, first, last) = (document(7, 9), document(8, 0), document(8, 1));
        let latest = |answers: &[Option<&TickClaim>]| -> String {
            match latest_document(answers.iter().copied(), 5) {
                DocumentStatus::TooFew => "too few".into(),
                DocumentStatus::Known(claim) => {
                    claim.map_or("none".into(), |claim| claim.note.clone().unwrap().to_string())
                }
            }
        };

        assert_eq!(latest(&[Some(&old), Some(&old)]), "too few");
        assert_eq!(latest(&[None, None, None]), "none");
        assert_eq!(latest(&[Some(&old), Some(&old), Some(&first)]), "8 0");
        assert_eq!(latest(&[Some(&last), Some(&old), Some(&first)]), "8 1");
    }
}

//! The latest run of a job, from the claims that the nodes store.
//!
//! A process starts a tick only once a majority stores its claim. Each claim takes two rounds, under
//! the fencing token of the job's lock: the nodes first *promise* to accept no claim with a smaller
//! token, and return the claim they store; then they store the new claim. After a majority promised,
//! an earlier claim that none of them stores can reach no majority any more.
//!
//! The end of a run is one more claim under the run's token. It is true wherever it is found, without
//! a majority. A process that finds one on fewer nodes stores it again ([`LatestClaim::is_replicated`]),
//! because the next reader may not reach these.
//!
//! Source of the two rounds: L. Lamport, *Paxos Made Simple* (2001), section 2.2, with the fencing
//! token as the proposal's number. What differs: a claim that may have been chosen is not proposed
//! again; the tick counts as started.

use std::sync::Arc;

use crate::protocol::{ScheduleMark, TickClaim, TickRun, formulas};

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
    /// The run before it, where there was one and it is known.
    pub before: Option<TickRun>,
    /// The job's schedule, where it is known.
    pub schedule: Option<ScheduleMark>,
    /// Whether a quorum of nodes stores exactly this claim. Otherwise other readers may see an
    /// earlier state of the run, such as running instead of ended.
    pub is_replicated: bool,
}

/// The latest document of a job, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentStatus<'a> {
    /// Fewer than a quorum of nodes answered.
    TooFew,
    /// The claim that holds it; `None` if there is none.
    Known(Option<&'a TickClaim>),
}

/// Returns the claim that holds the latest document: the one with the greatest token, and of these the
/// one with the greatest number.
///
/// A document that a majority stores is among the answers, or a later one. The author of a later one
/// read it before, after a majority had promised: so nothing that a majority stored is lost. A document
/// that only a minority stores may be found or not; its author reported that as unknown.
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
    // Of the claims with one token the last counts, from any node, because it tells that the run
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
        before: last.before,
        schedule: last.schedule.clone(),
        is_replicated: same().filter(|claim| *claim == last).count() >= quorum,
    };
    // The claim names the previous run, and no run came in between.
    let before = || {
        last.before.map(|run| LatestClaim {
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

//! Reads the claims of jobs' ticks from the nodes, and claims ticks.

use std::{sync::Arc, time::Duration};

use super::{Redlock, client::Client, query::query};
use crate::{
    error::{LockError, Reason},
    protocol::{Answer, ClaimOp, ClaimsAnswer, Op, PrepareOp, PromisedAnswer, TickClaim, formulas},
    quorum::claims::{ClaimStatus, LatestClaim, status},
    token::TOKEN_LEAD,
};

/// A job's runs, as the nodes store them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct JobHistory {
    pub(crate) latest: Option<LatestClaim>,
    /// Ticks up to this one count as started: the nodes lost their earlier claims.
    pub(crate) assumed_run_until: Duration,
}

/// Returns the histories of jobs, in their order. Claims made meanwhile are not excluded.
/// `never_started`: see [`status`].
pub(crate) async fn read(
    redlock: &Redlock,
    jobs: &[Arc<str>],
    never_started: &[u64],
) -> Result<Vec<JobHistory>, LockError> {
    let mut histories = vec![JobHistory::default(); jobs.len()];
    for (set, positions) in redlock.by_set(jobs) {
        let of_set: Vec<_> =
            positions.iter().map(|position| Arc::clone(&jobs[*position])).collect();
        let read = read_of_set(set.client(), &of_set, never_started).await?;
        positions.into_iter().zip(read).for_each(|(position, of)| histories[position] = of);
    }
    Ok(histories)
}

async fn read_of_set(
    client: &Client,
    jobs: &[Arc<str>],
    never_started: &[u64],
) -> Result<Vec<JobHistory>, LockError> {
    let mut histories = Vec::with_capacity(jobs.len());
    for jobs in jobs.chunks(Op::MAX_JOBS_A_CALL) {
        let op = Op::Claims(jobs.into());
        let of = |job: usize, answers: &[Result<Answer, Reason>]| {
            claim_status(client, answers, never_started, |answer| match answer {
                Answer::Claims(ClaimsAnswer { floor, claims }) => {
                    Some((*floor, claims.get(job)?.as_ref()))
                }
                _ => None,
            })
        };
        let known = |answers: &[Result<Answer, Reason>]| {
            (0..jobs.len()).all(|job| matches!(of(job, answers), (ClaimStatus::Known(_), _)))
        };
        let answers = query(client, &op, known).await;
        for job in 0..jobs.len() {
            let (status, floor) = of(job, &answers);
            histories.push(history(client, &answers, status, floor)?);
        }
    }
    Ok(histories)
}

/// Returns the history of a job whose lock is held with `token`. From then on, no earlier token can
/// claim a tick of it. `never_started`: see [`status`].
pub(crate) async fn prepare(
    redlock: &Redlock,
    job: &Arc<str>,
    token: u64,
    never_started: &[u64],
) -> Result<JobHistory, LockError> {
    let client = redlock.set_of(job).client();
    let op = Op::Prepare(PrepareOp { job: Arc::clone(job), token, max_delay: max_delay(client) });
    let of = |answers: &[Result<Answer, Reason>]| {
        claim_status(client, answers, never_started, |answer| match answer {
            Answer::Promised(PromisedAnswer { floor, claim }) => Some((*floor, claim.as_deref())),
            _ => None,
        })
    };
    let answers =
        query(client, &op, |answers| matches!(of(answers).0, ClaimStatus::Known(_))).await;
    let (status, floor) = of(&answers);
    history(client, &answers, status, floor)
}

/// Stores a claim on a quorum, after [`prepare`] with its token.
pub(crate) async fn claim(
    redlock: &Redlock,
    job: &Arc<str>,
    claim: TickClaim,
) -> Result<(), LockError> {
    let client = redlock.set_of(job).client();
    let (claim, max_delay) = (Arc::new(claim), max_delay(client));
    let op = Op::Claim(ClaimOp { job: Arc::clone(job), claim, max_delay });
    let quorum = formulas::quorum(client.nodes.len());
    let is_claimed = |answers: &[Result<Answer, Reason>]| {
        answers.iter().filter(|answer| matches!(answer, Ok(Answer::Claimed))).count() >= quorum
    };
    let answers = query(client, &op, is_claimed).await;
    if is_claimed(&answers) { Ok(()) } else { Err(client.no_quorum(&answers)) }
}

/// Returns the time after sending for which a node may still store a claim: two node timeouts, as
/// for grants.
pub(super) fn max_delay(client: &Client) -> Duration {
    client.settings.node_timeout * 2
}

/// Returns the status of a job's claims, and the floor of their tokens.
fn claim_status<'a>(
    client: &Client,
    answers: &'a [Result<Answer, Reason>],
    never_started: &[u64],
    of: impl Fn(&'a Answer) -> Option<(u64, Option<&'a TickClaim>)>,
) -> (ClaimStatus, u64) {
    let reported = || answers.iter().flatten().filter_map(&of);
    // A floor further ahead was set by a wrong clock.
    let clock = client.clock();
    let wall = client.nodes_wall(clock.now(), clock.wall());
    let limit = u64::try_from(wall.as_micros()).unwrap_or(u64::MAX).saturating_add(2 * TOKEN_LEAD);
    let floors = reported().map(|(floor, _)| floor).filter(|floor| *floor <= limit);
    let floor = floors.max().unwrap_or(0);
    (status(reported().map(|(_, claim)| claim), answers.len(), never_started), floor)
}

fn history(
    client: &Client,
    answers: &[Result<Answer, Reason>],
    status: ClaimStatus,
    floor: u64,
) -> Result<JobHistory, LockError> {
    let latest = match status {
        ClaimStatus::TooFew => return Err(client.no_quorum(answers)),
        ClaimStatus::Known(latest) => latest,
        ClaimStatus::Likely(latest) => Some(latest),
    };
    Ok(JobHistory { latest, assumed_run_until: TickClaim::assumed_run_before(floor) })
}

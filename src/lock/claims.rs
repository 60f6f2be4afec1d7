//! Asks the nodes about the ticks of jobs, and claims them.

use std::{sync::Arc, time::Duration};

use super::{ask::ask, core::Core};
use crate::{
    error::{LockError, Reason, VoteOutcome},
    protocol::{Answer, ClaimOp, ClaimsAnswer, Op, PrepareOp, PromisedAnswer, TickClaim, rules},
    quorum::claims::{ClaimStatus, Latest, status},
    token::TOKEN_LEAD,
};

/// What the nodes keep of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Kept {
    /// The latest run.
    pub(crate) latest: Option<Latest>,
    /// Ticks up to here count as started: the nodes lost what they knew before.
    pub(crate) burnt: Duration,
}

/// The latest runs of jobs, in their order. Binds nobody. `never_started`: see [`status`].
pub(crate) async fn read(
    core: &Core,
    jobs: &[Arc<str>],
    never_started: &[u64],
) -> Result<Vec<Kept>, LockError> {
    let mut kept = Vec::with_capacity(jobs.len());
    for jobs in jobs.chunks(Op::MAX_JOBS_A_CALL) {
        let op = Op::Claims(jobs.into());
        let of = |job: usize, answers: &[Result<Answer, Reason>]| {
            judge(core, answers, never_started, |answer| match answer {
                Answer::Claims(ClaimsAnswer { floor, claims }) => {
                    Some((*floor, claims.get(job)?.as_ref()))
                }
                _ => None,
            })
        };
        let known = |answers: &[Result<Answer, Reason>]| {
            (0..jobs.len()).all(|job| matches!(of(job, answers), (ClaimStatus::Known(_), _)))
        };
        let answers = ask(core, &op, known).await;
        for job in 0..jobs.len() {
            kept.push(settled(core, &answers, of(job, &answers))?);
        }
    }
    Ok(kept)
}

/// The latest run of a job whose lock is held with `token`; from now on nobody with an earlier
/// token can claim a tick of it. `never_started`: see [`status`].
pub(crate) async fn prepare(
    core: &Core,
    job: &Arc<str>,
    token: u64,
    never_started: &[u64],
) -> Result<Kept, LockError> {
    let op = Op::Prepare(PrepareOp { job: Arc::clone(job), token, patience: patience(core) });
    let of = |answers: &[Result<Answer, Reason>]| {
        judge(core, answers, never_started, |answer| match answer {
            Answer::Promised(PromisedAnswer { floor, claim }) => Some((*floor, claim.as_deref())),
            _ => None,
        })
    };
    let answers = ask(core, &op, |answers| matches!(of(answers).0, ClaimStatus::Known(_))).await;
    settled(core, &answers, of(&answers))
}

/// Has a claim kept by a quorum, after [`prepare`] with its token.
pub(crate) async fn claim(core: &Core, job: &Arc<str>, claim: TickClaim) -> Result<(), LockError> {
    let (claim, patience) = (Arc::new(claim), patience(core));
    let op = Op::Claim(ClaimOp { job: Arc::clone(job), claim, patience });
    let quorum = rules::quorum(core.nodes.len());
    let taken = |answers: &[Result<Answer, Reason>]| {
        answers.iter().filter(|answer| matches!(answer, Ok(Answer::Claimed))).count() >= quorum
    };
    let answers = ask(core, &op, taken).await;
    if taken(&answers) { Ok(()) } else { Err(no_quorum(core, &answers)) }
}

/// How long after sending a node may still take a claim: two node timeouts, as for grants.
fn patience(core: &Core) -> Duration {
    core.settings.node_timeout * 2
}

fn judge<'a>(
    core: &Core,
    answers: &'a [Result<Answer, Reason>],
    never_started: &[u64],
    of: impl Fn(&'a Answer) -> Option<(u64, Option<&'a TickClaim>)>,
) -> (ClaimStatus, u64) {
    let told = || answers.iter().flatten().filter_map(&of);
    // A floor that lies further ahead is of a clock that was wrong, and tells nothing.
    let clock = core.clock();
    let wall = core.nodes_wall(clock.now(), clock.wall());
    let limit = u64::try_from(wall.as_micros()).unwrap_or(u64::MAX).saturating_add(2 * TOKEN_LEAD);
    let floors = told().map(|(floor, _)| floor).filter(|floor| *floor <= limit);
    let floor = floors.max().unwrap_or(0);
    (status(told().map(|(_, claim)| claim), answers.len(), never_started), floor)
}

fn settled(
    core: &Core,
    answers: &[Result<Answer, Reason>],
    (status, floor): (ClaimStatus, u64),
) -> Result<Kept, LockError> {
    let latest = match status {
        ClaimStatus::TooFew => return Err(no_quorum(core, answers)),
        ClaimStatus::Known(latest) => latest,
        ClaimStatus::Likely(latest) => Some(latest),
    };
    Ok(Kept { latest, burnt: TickClaim::burnt_before(floor) })
}

fn no_quorum(core: &Core, answers: &[Result<Answer, Reason>]) -> LockError {
    let vote = |answer: &Result<Answer, Reason>| match answer {
        Ok(_) => VoteOutcome::Granted,
        Err(reason) => VoteOutcome::NotCounted(reason.clone()),
    };
    LockError::NoQuorum { votes: core.votes(answers.iter().map(vote).collect()) }
}

//! Reads and stores the documents of jobs on the nodes.

use std::{future::Future, sync::Arc};

use super::{
    Redlock, claims,
    client::Client,
    query::{query, votes},
};
use crate::{
    error::{LockError, Reason, Votes},
    protocol::{
        Answer, ClaimsAnswer, ForgetJobOp, JobDocument, Op, PrepareOp, PromisedAnswer, TickClaim,
    },
    quorum::claims::{DocumentStatus, latest_document},
};

/// Returns the latest documents of jobs, in their order; empty where there is none.
pub(crate) async fn read(
    redlock: &Redlock,
    document: JobDocument,
    jobs: &[Arc<str>],
) -> Result<Vec<Arc<str>>, LockError> {
    let mut documents = vec![Arc::default(); jobs.len()];
    for (set, positions) in redlock.by_set(jobs) {
        let of_set: Vec<_> =
            positions.iter().map(|position| Arc::clone(&jobs[*position])).collect();
        let read = read_of_set(set.client(), document, &of_set).await?;
        positions.into_iter().zip(read).for_each(|(position, of)| documents[position] = of);
    }
    Ok(documents)
}

async fn read_of_set(
    client: &Client,
    document: JobDocument,
    jobs: &[Arc<str>],
) -> Result<Vec<Arc<str>>, LockError> {
    let mut documents = Vec::with_capacity(jobs.len());
    for jobs in jobs.chunks(Op::MAX_JOBS_A_CALL) {
        let op = Op::Claims(jobs.iter().map(|job| document.register(job)).collect());
        let answers =
            query(client, &op, |answers| latest(answers, 0) != DocumentStatus::TooFew).await;
        for job in 0..jobs.len() {
            match latest(&answers, job) {
                DocumentStatus::TooFew => return Err(client.no_quorum(&answers)),
                DocumentStatus::Known(claim) => documents.push(text(claim)),
            }
        }
    }
    Ok(documents)
}

/// Returns the latest document of a job; empty if there is none. From then on, no earlier token can
/// store one. `token` is the token of the lock under which all replicas store this document.
pub(crate) async fn prepare(
    redlock: &Redlock,
    document: JobDocument,
    job: &str,
    token: u64,
) -> Result<Arc<str>, LockError> {
    let client = redlock.set_of(job).client();
    let max_delay = claims::max_delay(client);
    let op = Op::Prepare(PrepareOp::new(document.register(job), token, max_delay));
    let answers = query(client, &op, |answers| latest(answers, 0) != DocumentStatus::TooFew).await;
    match latest(&answers, 0) {
        DocumentStatus::TooFew => Err(client.no_quorum(&answers)),
        DocumentStatus::Known(claim) => Ok(text(claim)),
    }
}

/// Stores a document on a quorum, after [`prepare`] with its token. `number`: the sequence number
/// among the documents with this token.
pub(crate) fn store(
    redlock: &Redlock,
    document: JobDocument,
    job: &str,
    token: u64,
    number: u32,
    text: Arc<str>,
) -> impl Future<Output = Result<(), LockError>> + Send + use<> {
    debug_assert!(text.len() <= JobDocument::MAX_BYTES, "a document of {} bytes", text.len());
    let claim = TickClaim::of_document(token, number, Arc::clone(redlock.owner()), text);
    let (redlock, register) = (redlock.clone(), document.register(job));
    async move { claims::claim(&redlock, &register, claim).await }
}

/// Deletes what all nodes keep of a job. Returns whether one of them kept something.
///
/// # Errors
///
/// The votes, if some nodes did not confirm it.
pub(crate) async fn forget(redlock: &Redlock, job: &Arc<str>, token: u64) -> Result<bool, Votes> {
    let client = redlock.set_of(job).client();
    let op = Op::ForgetJob(ForgetJobOp::new(Arc::clone(job), token, claims::max_delay(client)));
    let answers = query(client, &op, |_| false).await;
    let mut existed = false;
    for answer in &answers {
        match answer {
            Ok(Answer::Forgotten(kept)) => existed |= kept,
            _ => return Err(votes(client, &answers)),
        }
    }
    Ok(existed)
}

/// Returns the latest of the documents with this index in the answers.
fn latest(answers: &[Result<Answer, Reason>], index: usize) -> DocumentStatus<'_> {
    let stored = answers.iter().flatten().filter_map(|answer| match answer {
        Answer::Claims(ClaimsAnswer { claims, .. }) => Some(claims.get(index)?.as_ref()),
        Answer::Promised(PromisedAnswer { claim, .. }) => Some(claim.as_deref()),
        _ => None,
    });
    latest_document(stored, answers.len())
}

fn text(claim: Option<&TickClaim>) -> Arc<str> {
    claim.and_then(|claim| claim.note.clone()).unwrap_or_default()
}

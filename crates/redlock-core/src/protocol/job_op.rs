//! The operations of a node that concern jobs.

use std::{sync::Arc, time::Duration};

use super::tick_claim::{JobDocument, TickClaim};

/// The parameters of [`Op::Prepare`](super::Op::Prepare).
#[derive(Clone, Debug)]
pub struct PrepareOp {
    /// The job.
    pub job: Arc<str>,
    /// The fencing token of the job's lock, which the client holds.
    pub token: u64,
    /// Time after sending within which the server may run the operation.
    pub max_delay: Duration,
}

impl PrepareOp {
    /// Creates a request for the promise.
    pub const fn new(job: Arc<str>, token: u64, max_delay: Duration) -> Self {
        Self { job, token, max_delay }
    }
}

/// The parameters of [`Op::Claim`](super::Op::Claim).
#[derive(Clone, Debug)]
pub struct ClaimOp {
    /// The job.
    pub job: Arc<str>,
    /// The claim.
    pub claim: Arc<TickClaim>,
    /// Time after sending within which the server may run the operation.
    pub max_delay: Duration,
}

impl ClaimOp {
    /// Creates an operation that stores `claim`.
    pub const fn new(job: Arc<str>, claim: Arc<TickClaim>, max_delay: Duration) -> Self {
        Self { job, claim, max_delay }
    }
}

/// The parameters of [`Op::ForgetJob`](super::Op::ForgetJob).
#[derive(Clone, Debug)]
pub struct ForgetJobOp {
    /// The job.
    pub job: Arc<str>,
    /// The fencing token of the job's lock, which the client holds.
    pub token: u64,
    /// Time after sending within which the server may run the operation.
    pub max_delay: Duration,
}

impl ForgetJobOp {
    /// Creates an operation that deletes what is stored of the job.
    pub const fn new(job: Arc<str>, token: u64, max_delay: Duration) -> Self {
        Self { job, token, max_delay }
    }

    /// Returns the names under which nodes store claims for the job; its own is the first.
    pub fn registers(&self) -> [Arc<str>; 3] {
        let document = |document: JobDocument| document.register(&self.job);
        [Arc::clone(&self.job), document(JobDocument::Control), document(JobDocument::History)]
    }
}

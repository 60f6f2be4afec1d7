//! The task that asks the server, for all who put and get.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use ::redis::{Pipeline, Value};
use tokio::sync::{mpsc, oneshot};

use super::stored;
use crate::{error::Reason, node::redis::SingleServer, once::StoredResponse, token::FencingToken};

/// Maximum number of questions that are sent at once.
const MAX_BATCH: usize = 16;
/// Number of bytes in responses from which on a batch gets no further question.
const MAX_BATCH_BYTES: usize = 1 << 20;
/// Maximum number of bytes that the answers to a batch may have.
const MAX_ANSWER_BYTES: usize = 32 << 20;

/// Stores a response unless one of a greater token is there, whatever its length. Answers 1, or 0
/// where it did not.
///
/// KEYS: the response's. ARGV: the token, in as many digits as each has; what is stored behind it; for
/// how many ms it is kept.
const PUT: &str = "\
local kept = redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1) \
if kept > ARGV[1] then return 0 end \
redis.call('SET', KEYS[1], ARGV[1] .. ARGV[2], 'PX', ARGV[3]) \
return 1";

/// A question to the server.
#[derive(Debug)]
pub(super) enum Question {
    Put { key: String, response: Arc<StoredResponse>, token: FencingToken, millis: u64 },
    Get { key: String },
}

/// A question, and who asks it.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) question: Question,
    pub(super) answer: oneshot::Sender<Result<Value, Reason>>,
    pub(super) _counted: Counted,
}

/// Counts a question as long as it is there.
#[derive(Debug)]
pub(super) struct Counted(Arc<AtomicUsize>);

impl Counted {
    /// `None` where there are `most` already.
    pub(super) fn new(count: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let counted = Self(Arc::clone(count));
        (count.fetch_add(1, Ordering::Relaxed) < most).then_some(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Question {
    fn bytes(&self) -> usize {
        match self {
            Self::Put { response, .. } => response.body().len(),
            Self::Get { .. } => 0,
        }
    }

    fn add_to(&self, pipeline: &mut Pipeline) {
        match self {
            Self::Put { key, response, token, millis } => {
                let put = pipeline.cmd("EVAL").arg(PUT).arg(1).arg(key);
                let value = stored::encode(key, response);
                put.arg(stored::token_text(*token)).arg(value).arg(*millis);
            }
            Self::Get { key } => {
                pipeline.cmd("GET").arg(key);
            }
        }
    }

    /// Why this can't be the server's answer to the question, if it can't.
    fn misfit(&self, answer: &Value) -> Option<&'static str> {
        match (self, answer) {
            (Self::Put { .. }, Value::Int(_)) | (Self::Get { .. }, Value::Nil) => None,
            (Self::Put { .. }, _) => Some("it did not say 0 or 1"),
            (Self::Get { key }, Value::BulkString(value)) => stored::is_foreign(value, key)
                .then_some("its key holds something else (it does not name this key)"),
            (Self::Get { .. }, _) => Some("its key holds something else (no text)"),
        }
    }
}

/// Asks until nobody can ask any more. `max_bytes` is what a response may have.
pub(super) async fn run(
    mut server: SingleServer,
    max_bytes: usize,
    mut jobs: mpsc::UnboundedReceiver<Job>,
) {
    let most = (MAX_ANSWER_BYTES / max_bytes.max(1)).clamp(1, MAX_BATCH);
    while let Some(first) = jobs.recv().await {
        let batch = gather(first, most, &mut jobs);
        if batch.is_empty() {
            continue;
        }
        let mut pipeline = Pipeline::with_capacity(batch.len());
        for job in &batch {
            job.question.add_to(&mut pipeline);
        }
        let answers = match server.ask(&pipeline).await {
            Ok(answers) => answers,
            Err(reason) => vec![Err(reason); batch.len()],
        };
        for (Job { question, answer, .. }, mut said) in batch.into_iter().zip(answers) {
            if let Some(why) = said.as_ref().ok().and_then(|said| question.misfit(said)) {
                // Whatever follows on this connection may be shifted as well.
                server.disconnect("it sent what may answer another question");
                said = Err(Reason::Protocol(why.into()));
            }
            // Who asked may have gone, and its waker is foreign code: the others are answered too.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(answer.send(said))));
        }
    }
}

/// What is asked at the moment, as far as it goes together. Who has gone is not asked for.
fn gather(first: Job, most: usize, jobs: &mut mpsc::UnboundedReceiver<Job>) -> Vec<Job> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    let mut next = Some(first);
    while let Some(job) = next {
        if !job.answer.is_closed() {
            bytes += job.question.bytes();
            batch.push(job);
        }
        let is_full = batch.len() >= most || bytes >= MAX_BATCH_BYTES;
        next = if is_full { None } else { jobs.try_recv().ok() };
    }
    batch
}

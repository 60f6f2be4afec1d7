//! The task that sends commands to the server, and the format of stored values.
//!
//! A value is the token, a digest of its key, and the response. The digest detects the response of
//! another key, such as a late reply.

use std::{
    error::Error,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use ::redis::{Pipeline, Value};
use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use crate::{
    error::Reason,
    node::redis::SingleServer,
    once::{StoredBy, StoredResponse},
    token::FencingToken,
};

/// Maximum number of commands in a batch.
const MAX_BATCH: usize = 16;
/// Number of bytes in responses above which a batch gets no further command.
const MAX_BATCH_BYTES: usize = 1 << 20;
/// Maximum number of bytes in the replies to a batch.
const MAX_REPLY_BYTES: usize = 32 << 20;

/// Error text for a reply to a put that is not a number.
pub(super) const NOT_A_PUT_REPLY: &str = "it did not say 0 or 1";
/// Length of a token: the number of decimal digits of the greatest.
const TOKEN_DIGITS: usize = 20;
const DIGEST_BYTES: usize = 32;

/// Stores a response unless a greater token's is stored. Returns 1 if it did, else 0.
///
/// KEYS: the response's. ARGV: the token, in a fixed number of digits; the rest of the value; the
/// expiry in ms.
const PUT: &str = "\
local kept = redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1) \
if kept > ARGV[1] then return 0 end \
redis.call('SET', KEYS[1], ARGV[1] .. ARGV[2], 'PX', ARGV[3]) \
return 1";

/// A command to the server.
#[derive(Debug)]
pub(super) enum StoreCommand {
    Put { key: String, response: Arc<StoredResponse>, token: FencingToken, millis: u64 },
    Get { key: String },
}

/// A command, with the sender of its reply.
#[derive(Debug)]
pub(super) struct StoreJob {
    pub(super) command: StoreCommand,
    pub(super) reply: oneshot::Sender<Result<Value, Reason>>,
    /// Counts as waiting until it is dropped.
    pub(super) _permits: [OwnedSemaphorePermit; 2],
}

impl StoreCommand {
    /// Returns the size of its response's body.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Put { response, .. } => response.body().len(),
            Self::Get { .. } => 0,
        }
    }

    fn add_to(&self, pipeline: &mut Pipeline) {
        match self {
            Self::Put { key, response, token, millis } => {
                let put = pipeline.cmd("EVAL").arg(PUT).arg(1).arg(key);
                let value = encode(key, response);
                put.arg(token_text(*token)).arg(value).arg(*millis);
            }
            Self::Get { key } => {
                pipeline.cmd("GET").arg(key);
            }
        }
    }

    /// Returns why `reply` can't be the reply to this command.
    fn misfit(&self, reply: &Value) -> Option<&'static str> {
        match (self, reply) {
            (Self::Put { .. }, Value::Int(_)) | (Self::Get { .. }, Value::Nil) => None,
            (Self::Put { .. }, _) => Some(NOT_A_PUT_REPLY),
            (Self::Get { key }, Value::BulkString(value)) => is_foreign(value, key)
                .then_some("its key holds something else (it does not name this key)"),
            (Self::Get { .. }, _) => Some("its key holds something else (no text)"),
        }
    }
}

/// Runs until all senders of `jobs` are dropped. `max_bytes` is the maximum size of a response.
pub(super) async fn run(
    mut server: SingleServer,
    max_bytes: usize,
    mut jobs: mpsc::UnboundedReceiver<StoreJob>,
) {
    let max_batch = max_batch(max_bytes);
    while let Some(first) = jobs.recv().await {
        let batch = gather(first, max_batch, &mut jobs);
        if batch.is_empty() {
            continue;
        }
        let mut pipeline = Pipeline::with_capacity(batch.len());
        for job in &batch {
            job.command.add_to(&mut pipeline);
        }
        let replies = match server.ask(&pipeline).await {
            Ok(replies) => replies,
            Err(reason) => vec![Err(reason); batch.len()],
        };
        debug_assert_eq!(replies.len(), batch.len(), "each command has a reply");
        for (StoreJob { command, reply, .. }, mut said) in batch.into_iter().zip(replies) {
            if let Some(why) = said.as_ref().ok().and_then(|said| command.misfit(said)) {
                // Further replies on this connection may be shifted as well.
                server.disconnect("it sent a reply that may be to another command");
                said = Err(Reason::Protocol(why.into()));
            }
            // The waker is foreign code: a panic in it must not keep the others from their replies.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(reply.send(said))));
        }
    }
}

/// Returns the maximum number of commands in a batch, by the maximum size of a response.
fn max_batch(max_bytes: usize) -> usize {
    (MAX_REPLY_BYTES / max_bytes.max(1)).clamp(1, MAX_BATCH)
}

/// Takes the waiting jobs that fit into one batch. Skips those whose caller has dropped the reply.
fn gather(
    first: StoreJob,
    max_batch: usize,
    jobs: &mut mpsc::UnboundedReceiver<StoreJob>,
) -> Vec<StoreJob> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    let mut next = Some(first);
    while let Some(job) = next {
        if !job.reply.is_closed() {
            bytes += job.command.bytes();
            batch.push(job);
        }
        let is_full = batch.len() >= max_batch || bytes >= MAX_BATCH_BYTES;
        next = if is_full { None } else { jobs.try_recv().ok() };
    }
    batch
}

/// The token as text. The texts of two tokens compare as the tokens do.
pub(super) fn token_text(token: FencingToken) -> String {
    format!("{:0TOKEN_DIGITS$}", token.get())
}

/// The part of the value after the token.
pub(super) fn encode(key: &str, response: &StoredResponse) -> Vec<u8> {
    [&digest(key)[..], &response.encode()].concat()
}

/// Whether a value was not stored under this key.
fn is_foreign(value: &[u8], key: &str) -> bool {
    let found = value.get(TOKEN_DIGITS..TOKEN_DIGITS + DIGEST_BYTES);
    found.is_none_or(|found| found != digest(key))
}

pub(super) fn decode(value: Vec<u8>) -> Result<StoredBy, Box<dyn Error + Send + Sync>> {
    let mut value = Bytes::from(value);
    if value.len() < TOKEN_DIGITS + DIGEST_BYTES {
        return Err("it is too short".into());
    }
    let token = value.split_to(TOKEN_DIGITS);
    let token = FencingToken::new(std::str::from_utf8(&token)?.parse()?);
    let response = StoredResponse::decode(value.split_off(DIGEST_BYTES))?;
    Ok(StoredBy { token, response: Arc::new(response) })
}

fn digest(key: &str) -> [u8; DIGEST_BYTES] {
    Sha256::digest(key.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;
    use crate::once::StoredHeaders;

    type Reply = oneshot::Receiver<Result<Value, Reason>>;

    fn job(command: StoreCommand) -> (StoreJob, Reply) {
        let (reply, receiver) = oneshot::channel();
        let permit = || Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        (StoreJob { command, reply, _permits: [permit(), permit()] }, receiver)
    }

    fn get() -> (StoreJob, Reply) {
        job(StoreCommand::Get { key: "k".into() })
    }

    fn put(bytes: usize) -> (StoreJob, Reply) {
        let (parts, ()) = http::Response::new(()).into_parts();
        let body = vec![b'x'; bytes].into();
        let response = Arc::new(StoredResponse::new(&parts, body, &StoredHeaders::default()));
        let token = FencingToken::new(1);
        job(StoreCommand::Put { key: "k".into(), response, token, millis: 1 })
    }

    /// Returns the number of jobs in the first batch.
    fn first_batch(max_batch: usize, jobs: Vec<(StoreJob, Reply)>) -> usize {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let (jobs, _replies): (Vec<_>, Vec<_>) = jobs.into_iter().unzip();
        for job in jobs {
            sender.send(job).unwrap();
        }
        let first = receiver.try_recv().unwrap();
        gather(first, max_batch, &mut receiver).len()
    }

    #[test]
    fn large_responses_make_small_batches() {
        let of_size = [(0, 16), (1 << 20, 16), (8 << 20, 4), (MAX_REPLY_BYTES, 1), (usize::MAX, 1)];
        for (max_bytes, commands) in of_size {
            assert_eq!(max_batch(max_bytes), commands, "{max_bytes}");
        }
    }

    #[test]
    fn batch_is_limited_in_commands() {
        assert_eq!(first_batch(3, (0..5).map(|_| get()).collect()), 3);
        assert_eq!(first_batch(3, (0..2).map(|_| get()).collect()), 2);
    }

    #[test]
    fn batch_is_limited_in_bytes() {
        let half = MAX_BATCH_BYTES / 2;
        assert_eq!(first_batch(16, vec![put(half), put(half), get()]), 2);
        assert_eq!(first_batch(16, vec![put(half), put(half - 1), get(), get()]), 4);
        assert_eq!(first_batch(16, vec![put(MAX_BATCH_BYTES), get()]), 1);
    }

    #[test]
    fn abandoned_jobs_are_skipped() {
        let (abandoned, reply) = put(MAX_BATCH_BYTES);
        drop(reply);
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let (kept, _reply) = get();
        sender.send(kept).unwrap();
        assert_eq!(gather(abandoned, 16, &mut receiver).len(), 1);
    }
}

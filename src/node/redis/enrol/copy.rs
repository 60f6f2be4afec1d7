//! Copies long-lived records from the other nodes after an activation; until then, the node does
//! not answer that a record is missing.
//!
//! Keys are scanned in small pages. Only records that the node lacks are read, as many as fill a
//! reply, over separate connections. So the size of a reply and the rate of bytes and calls are
//! bounded, and a restarted copy reads only keys twice.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use ::redis::{Pipeline, Value};
use tokio::time::{Instant, sleep_until};

use super::{
    NodeSet, Tag,
    bulk_connection::{BulkConnection, prefix_pattern},
    node_report::BOOTSTRAPPED,
    shared_task::{SharedTask, TaskClaim, TaskClaimed},
};
use crate::{
    error::Reason,
    metrics,
    node::redis::{
        decode::{list, reason, text},
        scripts,
        status_detail::Copied,
    },
    protocol::formulas::Sources,
};

/// Number of keys scanned in one call.
const PAGE: usize = 250;
/// Size of a reply in bytes; the last record may exceed it.
const ANSWER: usize = 256 * 1024;
/// Maximum rate of records, in bytes per second.
const RATE: u64 = 10_000_000;
/// Minimum time of a step: at most 200 calls a second on a source.
const TURN: Duration = Duration::from_millis(5);
/// Pause before the next attempt, while another client copies or after a failure.
const PAUSE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(2);

/// Copies records to a node; returns the pause before the next attempt if it is not done.
pub(super) async fn copy(set: &NodeSet, node: usize) -> Option<Duration> {
    let status = &set.members()[node].status;
    let begun = Instant::now();
    match try_to_copy(set, node).await {
        Ok(CopyEnd::Before) => None,
        Ok(CopyEnd::Now(Copied { records, bytes })) => {
            let elapsed = begun.elapsed();
            let node = status.name();
            crate::log::info!(%node, records, bytes, ?elapsed, "long-lived records were taken over");
            None
        }
        Ok(CopyEnd::ByAnother(copied)) => {
            status.set_copied(copied);
            Some(crate::random::within(&PAUSE))
        }
        Err(reason) => {
            let node = status.name();
            crate::log::debug!(%node, %reason, "long-lived records are not taken over yet");
            Some(crate::random::within(&PAUSE))
        }
    }
}

enum CopyEnd {
    Now(Copied),
    /// The node lacked none.
    Before,
    ByAnother(Copied),
}

async fn try_to_copy(set: &NodeSet, node: usize) -> Result<CopyEnd, Reason> {
    let mut pipeline = Pipeline::with_capacity(1);
    add_report(&mut pipeline, set);
    let begun = report(set, set.ask(node, pipeline).await?)?;
    if begun.once.is_empty() {
        return Ok(CopyEnd::Before);
    }
    let claim = TaskClaim::new(SharedTask::Copy, node, Arc::clone(&begun.once));
    match claim.take(set).await? {
        TaskClaimed::Ours => {}
        TaskClaimed::ByAnother(copied) => return Ok(CopyEnd::ByAnother(copied)),
        TaskClaimed::Over => return Ok(CopyEnd::Before),
    }
    let copied = claim.hold(set, Copier::run(set, node, &begun)).await;
    let copied = copied.unwrap_or(Err(Reason::WrongTag { found: "".into() }));
    if copied.is_err() {
        // Another client may reach a node that this one does not.
        claim.give_back(set).await;
    }
    copied.map(CopyEnd::Now)
}

/// The state of a node's records.
struct RecordsReport {
    tag: Tag,
    /// [`LEARNT`] or [`BOOTSTRAPPED`] with the nonce of the probation, or nothing. With the tag it
    /// names the activation.
    once: Arc<str>,
}

impl RecordsReport {
    /// Checks that the node was neither enrolled again nor found to have forgotten since.
    fn are_those_of(&self, begun: &Self) -> Result<(), Reason> {
        let same = self.tag.enrolment() == begun.tag.enrolment() && self.once == begun.once;
        let found = || Arc::clone(self.tag.text());
        if same { Ok(()) } else { Err(Reason::WrongTag { found: found() }) }
    }
}

fn add_report(pipeline: &mut Pipeline, set: &NodeSet) {
    pipeline.cmd("HMGET").arg(&set.keys.meta).arg("tag").arg("once");
}

fn report(set: &NodeSet, answers: Vec<Value>) -> Result<RecordsReport, Reason> {
    let items = list(answers)?;
    let tag = Tag::new(items.first().map(text).unwrap_or_default());
    let once = items.get(1).map(text).unwrap_or_default();
    if tag.layout() != &*set.layout.hash {
        return Err(Reason::WrongTag { found: Arc::clone(tag.text()) });
    }
    Ok(RecordsReport { tag, once })
}

struct Copier<'a> {
    set: &'a NodeSet,
    node: usize,
    target: BulkConnection,
    copied: Copied,
}

impl<'a> Copier<'a> {
    /// Copies all records, and marks the node as complete.
    async fn run(set: &'a NodeSet, node: usize, begun: &RecordsReport) -> Result<Copied, Reason> {
        let target = BulkConnection::open(set, node).await?;
        let mut copier = Self { set, node, target, copied: Copied::default() };
        copier.report_progress(Copied::default());
        // The connection may lead to another server by now.
        Self::report(set, &mut copier.target).await?.are_those_of(begun)?;
        copier.copy_all(begun.once.starts_with(BOOTSTRAPPED)).await?;
        let mut call = set.call(node, scripts::COPIED);
        call.arg(begun.tag.enrolment()).arg(&*begun.once);
        match copier.target.ask(&call).await?.pop() {
            Some(Value::Int(1)) => Ok(copier.copied),
            Some(Value::ServerError(error)) => Err(reason(&error)),
            _ => Err(Reason::WrongTag { found: "".into() }),
        }
    }

    async fn report(set: &NodeSet, side: &mut BulkConnection) -> Result<RecordsReport, Reason> {
        let mut pipeline = Pipeline::with_capacity(1);
        add_report(&mut pipeline, set);
        report(set, side.ask(&pipeline).await?)
    }

    async fn copy_all(&mut self, is_bootstrapped: bool) -> Result<(), Reason> {
        let (nodes, node) = (self.set.members().len(), self.node);
        let mut sources = Sources { nodes, complete: 0, incomplete: 1, is_bootstrapped };
        let mut last = Reason::Unknown;
        for other in (0..nodes).filter(|&other| other != node) {
            match self.copy_from(other).await {
                Ok(true) => sources.complete += 1,
                Ok(false) => sources.incomplete += 1,
                Err(reason) => last = reason,
            }
        }
        if sources.suffice() { Ok(()) } else { Err(last) }
    }

    /// Copies the records of one node that the other lacks; returns whether the source was
    /// complete.
    async fn copy_from(&mut self, from: usize) -> Result<bool, Reason> {
        let set = self.set;
        let mut source = BulkConnection::open(set, from).await?;
        let begun = Self::report(set, &mut source).await?;
        let pattern = prefix_pattern(&set.keys.done_prefix);
        let mut cursor = String::from("0");
        loop {
            let turn = Instant::now();
            let (next, keys) = source.scan(&cursor, &pattern, PAGE).await?;
            let mut missing = self.missing(keys).await?;
            sleep_until(turn + TURN).await;
            while !missing.is_empty() {
                let turn = Instant::now();
                let answers = read(&mut source, &missing).await?;
                let looked_at = answers.len() / 2;
                if looked_at == 0 || looked_at > missing.len() {
                    return Err(Reason::Protocol("other records than asked for".into()));
                }
                let copied = self.write(&missing, &answers).await?;
                missing.drain(..looked_at);
                self.report_progress(copied);
                let least = Duration::from_micros(copied.bytes * 1_000_000 / RATE);
                sleep_until(turn + least.max(TURN)).await;
            }
            if next == "0" {
                break;
            }
            cursor = next;
        }
        // The source may have lost them meanwhile, or may not be the server that votes.
        let ended = Self::report(set, &mut source).await?;
        ended.are_those_of(&begun)?;
        // A node in probation may stand in front of one that others still count, with its records.
        if !set.votes_with(from, &ended.tag) {
            return Err(Reason::WrongTag { found: Arc::clone(ended.tag.text()) });
        }
        Ok(ended.once.is_empty())
    }

    /// Returns the keys without a record of finished work.
    async fn missing(&mut self, keys: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, Reason> {
        if keys.is_empty() {
            return Ok(keys);
        }
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.cmd("EVAL").arg(scripts::KINDS.text).arg(keys.len()).arg(&keys);
        let kinds = self.target.list(&pipeline).await?;
        let is_missing = |kind: &Value| matches!(&*text(kind), "" | "u");
        let kept = keys.into_iter().zip(kinds);
        Ok(kept.filter(|(_, kind)| is_missing(kind)).map(|(key, _)| key).collect())
    }

    /// Stores records, given as values and TTLs, unless better ones exist.
    async fn write(&mut self, keys: &[Vec<u8>], records: &[Value]) -> Result<Copied, Reason> {
        let mut copied = Copied::default();
        let (mut to, mut what) = (Vec::new(), Vec::new());
        for (key, record) in keys.iter().zip(records.chunks_exact(2)) {
            let (Value::BulkString(value), Value::Int(ttl)) = (&record[0], &record[1]) else {
                continue;
            };
            // Zero is its last millisecond, and no TTL would keep it for ever.
            if *ttl == 0 {
                continue;
            }
            to.push(key);
            what.push((&value[..], *ttl));
            copied.records += 1;
            copied.bytes += (key.len() + value.len()) as u64;
        }
        if to.is_empty() {
            return Ok(copied);
        }
        let mut pipeline = Pipeline::with_capacity(1);
        let cmd = pipeline.cmd("EVAL").arg(scripts::COPY_RECORDS.text).arg(to.len()).arg(&to);
        for (value, ttl) in what {
            cmd.arg(value).arg(ttl);
        }
        match self.target.ask(&pipeline).await?.pop() {
            Some(Value::ServerError(error)) => Err(reason(&error)),
            _ => Ok(copied),
        }
    }

    /// Reports progress.
    fn report_progress(&mut self, more: Copied) {
        self.copied.records += more.records;
        self.copied.bytes += more.bytes;
        let status = &self.set.members()[self.node].status;
        status.set_copied(self.copied);
        metrics::copied(status.name(), more.records, more.bytes);
    }
}

/// Reads values and TTLs of the first records, as many as fill a reply.
async fn read(source: &mut BulkConnection, keys: &[Vec<u8>]) -> Result<Vec<Value>, Reason> {
    let mut pipeline = Pipeline::with_capacity(1);
    let cmd = pipeline.cmd("EVAL").arg(scripts::READ_RECORDS.text).arg(keys.len());
    cmd.arg(keys).arg(ANSWER);
    source.list(&pipeline).await
}

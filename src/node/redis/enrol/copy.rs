//! Copies long-lived records from the other nodes after an activation. Until then, the node does
//! not confirm that a record is missing.
//!
//! All other nodes are read in parallel, so a source that is slow, or whose scan does not end,
//! delays no other source. When enough sources were read, the remaining ones get a limited time.
//!
//! One client copies on behalf of all (`copier`). A node whose records are being copied abstains
//! from queries for records, and from queries for claims if it did not learn from N−q+1 other
//! nodes. Each source is read over its own connection, apart from the connection for votes: in
//! pages of 250 keys. The copier asks the node for which of these keys it has no record, or only a
//! record of unfinished work, and reads these records until a reply reaches 256 KiB. The sources
//! have equal shares of 10 MB and 200 calls a second. A record of finished work replaces a record
//! of unfinished work. Of two records of unfinished work, the one with the longer retention is
//! kept.
//!
//! A source counts if it votes, and if its tag is the same before and after the read. The node is
//! complete when N−q+1 complete sources were read, or all other nodes: a quorum whose nodes forgot
//! records one after the other is not a new set, and a node that could not be read may be the only
//! one with these records. Only a bootstrapped node is complete with any q nodes, itself included.
//! A source is counted only when the node has, for each of the source's keys, the same record or a
//! better one. So the order of the sources does not matter.
//!
//! Each source asks the node which records it lacks, and reads those. When enough sources were read,
//! the remaining ones get as much time again, at least 3 s. While too few sources were read, those
//! that failed or were not complete are read again after pauses of 1 to 2 s.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use ::redis::Value;
use futures_util::{Stream, StreamExt, stream::FuturesUnordered};
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    NodeSet,
    copier::Copier,
    node_report::BOOTSTRAPPED,
    record_source::RecordSource,
    records_report::RecordsReport,
    shared_task::{SharedTask, TaskLease, TaskLeaseOutcome},
    source_outcomes::SourceOutcomes,
};
use crate::{
    error::Reason,
    node::redis::{scripts, server_error::reason, status_detail::Copied},
};

/// Minimum time for the other sources once enough were read.
const MIN_EXTRA: Duration = Duration::from_secs(3);
/// Pause before the next attempt, while another client copies or after a failure.
const PAUSE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(2);

/// Copies records to a node. Returns the pause before the next attempt if records are missing.
pub(super) async fn copy(set: &NodeSet, node: usize) -> Option<Duration> {
    let status = &set.members()[node].status;
    let begun = Instant::now();
    match try_to_copy(set, node).await {
        Ok(CopyEnd::Before) => None,
        Ok(CopyEnd::Now(Copied { records, bytes })) => {
            let elapsed = begun.elapsed();
            let node = status.name();
            crate::log::info!(%node, records, bytes, ?elapsed, "long-lived records were copied");
            None
        }
        Ok(CopyEnd::ByAnother(copied)) => {
            status.set_copied(copied);
            Some(crate::random::within(&PAUSE))
        }
        Err(reason) => {
            let node = status.name();
            crate::log::debug!(%node, %reason, "long-lived records are not copied yet");
            Some(crate::random::within(&PAUSE))
        }
    }
}

enum CopyEnd {
    Now(Copied),
    /// The node lacked no record.
    Before,
    ByAnother(Copied),
}

async fn try_to_copy(set: &NodeSet, node: usize) -> Result<CopyEnd, Reason> {
    let begun = RecordsReport::of_node(set, node).await?;
    if begun.is_complete() {
        return Ok(CopyEnd::Before);
    }
    let lease = TaskLease::new(SharedTask::Copy, node, Arc::clone(&begun.once));
    match lease.acquire(set).await? {
        TaskLeaseOutcome::Ours => {}
        TaskLeaseOutcome::HeldByAnother(copied) => return Ok(CopyEnd::ByAnother(copied)),
        TaskLeaseOutcome::Over => return Ok(CopyEnd::Before),
    }
    let copied = lease.hold(set, Copier::run(set, node, &begun)).await;
    let copied = copied.unwrap_or(Err(Reason::WrongTag { found: "".into() }));
    if copied.is_err() {
        // The next client may reach a source that this one does not.
        lease.release(set).await;
    }
    copied.map(CopyEnd::Now)
}

impl<'a> Copier<'a> {
    /// Copies all records, and marks the node as complete.
    async fn run(
        set: &'a NodeSet,
        node: usize,
        begun: &'a RecordsReport,
    ) -> Result<Copied, Reason> {
        let copier = Self::new(set, node, begun);
        copier.report_progress(Copied::default());
        copier.copy_all().await?;
        let mut call = set.call(node, scripts::COPIED);
        call.arg(begun.tag.enrolment()).arg(&*begun.once);
        match set.ask(node, call).await?.pop() {
            Some(Value::Int(1)) => Ok(copier.copied()),
            Some(Value::ServerError(error)) => Err(reason(&error)),
            _ => Err(Reason::WrongTag { found: "".into() }),
        }
    }

    /// Reads all other nodes in parallel, until each was read or has failed. Once enough were read,
    /// the remaining ones get as much time again.
    async fn copy_all(&self) -> Result<(), Reason> {
        let started = Instant::now();
        let is_bootstrapped = self.begun.once.starts_with(BOOTSTRAPPED);
        let mut outcomes = SourceOutcomes::new(self.set.members().len(), is_bootstrapped);
        let others = self.set.others(self.node).into_iter();
        let mut reading: FuturesUnordered<_> = others.map(|node| self.read(node, None)).collect();
        let mut end = None;
        while outcomes.are_missing()
            && let Some((node, outcome)) = next_before(end, &mut reading).await
        {
            // A long copy from another node gives this node time to become complete, or to
            // reconnect.
            if outcome != Ok(true) {
                reading.push(self.read(node, Some(outcome.clone())));
            }
            outcomes.add(node, outcome);
            if outcomes.suffice() && end.is_none() {
                end = Some(Instant::now() + started.elapsed().max(MIN_EXTRA));
            }
        }
        if outcomes.suffice() && outcomes.are_missing() {
            let node = self.set.members()[self.node].status.name();
            crate::log::debug!(%node, "the records of slow nodes were read only in part");
        }
        outcomes.verdict()
    }

    /// Copies the records of a node. Repeats that after a pause if the node was not read or not
    /// complete before. Returns whether the node was complete.
    async fn read(
        &self,
        from: usize,
        before: Option<Result<bool, Reason>>,
    ) -> (usize, Result<bool, Reason>) {
        if before.is_some() {
            sleep(crate::random::within(&PAUSE)).await;
        }
        (from, RecordSource::copy(self, from, before == Some(Ok(false))).await)
    }
}

/// Returns the next item, or `None` from `end` on.
async fn next_before<T>(
    end: Option<Instant>,
    items: &mut (impl Stream<Item = T> + Unpin),
) -> Option<T> {
    match end {
        None => items.next().await,
        // Items that are always ready would hide the timeout.
        Some(end) if end <= Instant::now() => None,
        Some(end) => timeout_at(end, items.next()).await.unwrap_or(None),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nothing_is_taken_after_the_end() {
        let end = Instant::now() + Duration::from_secs(3);
        let mut always = stream::repeat(7);
        assert_eq!(next_before(None, &mut always).await, Some(7));
        assert_eq!(next_before(Some(end), &mut always).await, Some(7));
        assert_eq!(next_before(Some(end), &mut stream::pending::<u8>()).await, None);
        assert_eq!(Instant::now(), end);
        assert_eq!(next_before(Some(end), &mut always).await, None, "ready, but too late");
    }
}

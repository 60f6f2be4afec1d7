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
//! Keys whose records another source is reading are deferred, so that usually each record is read
//! from one source. A source with no other key left waits for them, for 5 s in total, and then
//! reads them itself. When enough sources were read, the remaining ones get as much time again, at
//! least 3 s. While too few sources were read, those that failed or were not complete are read
//! again after pauses of 1 to 2 s.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use ::redis::{Pipeline, Value};
use futures_util::{Stream, StreamExt, stream::FuturesUnordered};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::{
    NodeSet, Tag,
    bulk_connection::BulkConnection,
    key_reservations::KeyReservations,
    node_report::BOOTSTRAPPED,
    record_source::RecordSource,
    shared_task::{SharedTask, TaskLease, TaskLeaseOutcome},
    source_outcomes::SourceOutcomes,
};
use crate::{
    error::Reason,
    metrics,
    node::redis::{
        scripts,
        server_error::reason,
        status_detail::Copied,
        values::{list, text},
    },
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
        lock,
    },
};

/// Maximum rate of records from all sources, in bytes per second.
const RATE: u64 = 10_000_000;
/// Minimum time for each call on a server: at most 200 calls a second.
const MIN_CALL_TIME: Duration = Duration::from_millis(5);
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
    let mut pipeline = Pipeline::with_capacity(1);
    add_report(&mut pipeline, set);
    let begun = report(set, set.ask(node, pipeline).await?)?;
    if begun.once.is_empty() {
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

/// The state of a node's records.
pub(super) struct RecordsReport {
    pub(super) tag: Tag,
    /// [`LEARNT`] or [`BOOTSTRAPPED`] with the nonce of the probation, or nothing. Together with
    /// the tag it identifies the activation.
    once: Arc<str>,
}

impl RecordsReport {
    pub(super) async fn read(
        set: &NodeSet,
        connection: &mut BulkConnection,
    ) -> Result<Self, Reason> {
        let mut pipeline = Pipeline::with_capacity(1);
        add_report(&mut pipeline, set);
        report(set, connection.ask(&pipeline).await?)
    }

    /// Returns whether the node lacks no records.
    pub(super) fn is_complete(&self) -> bool {
        self.once.is_empty()
    }

    /// Checks that the node was neither enrolled again nor found to have forgotten since `begun`.
    pub(super) fn are_those_of(&self, begun: &Self) -> Result<(), Reason> {
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

/// An attempt to copy all records to a node.
pub(super) struct Copier<'a> {
    pub(super) set: &'a NodeSet,
    pub(super) node: usize,
    /// The node's report before the attempt.
    pub(super) begun: &'a RecordsReport,
    pub(super) reservations: KeyReservations,
    /// Number of sources that share the rate.
    shares: AtomicU32,
    copied: Mutex<Copied>,
}

impl<'a> Copier<'a> {
    /// Copies all records, and marks the node as complete.
    async fn run(
        set: &'a NodeSet,
        node: usize,
        begun: &'a RecordsReport,
    ) -> Result<Copied, Reason> {
        let copier = Self {
            set,
            node,
            begun,
            reservations: KeyReservations::default(),
            shares: AtomicU32::new(0),
            copied: Mutex::default(),
        };
        copier.report_progress(Copied::default());
        copier.copy_all().await?;
        let mut call = set.call(node, scripts::COPIED);
        call.arg(begun.tag.enrolment()).arg(&*begun.once);
        match set.ask(node, call).await?.pop() {
            Some(Value::Int(1)) => Ok(*lock(&copier.copied)),
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

    /// Waits until a source that made calls in its turn may continue. The sources have equal shares
    /// of the rate.
    pub(super) async fn pace(&self, turn: Instant, calls: u32, bytes: u64) {
        let shares = self.shares.load(Ordering::Relaxed).max(1);
        let least = (MIN_CALL_TIME * calls).max(Duration::from_micros(bytes * 1_000_000 / RATE));
        sleep_until(turn + least * shares).await;
    }

    /// Adds to the progress, and reports it.
    pub(super) fn report_progress(&self, more: Copied) {
        let copied = {
            let mut copied = lock(&self.copied);
            copied.records += more.records;
            copied.bytes += more.bytes;
            *copied
        };
        let status = &self.set.members()[self.node].status;
        status.set_copied(copied);
        metrics::copied(status.name(), more.records, more.bytes);
    }
}

/// A source's share of the rate, until it is dropped.
pub(super) struct RateShare<'a>(&'a AtomicU32);

impl<'a> RateShare<'a> {
    pub(super) fn new(copier: &'a Copier<'_>) -> Self {
        copier.shares.fetch_add(1, Ordering::Relaxed);
        Self(&copier.shares)
    }
}

impl Drop for RateShare<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
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

    use super::{
        super::{node_report::LEARNT, tests::Scripted},
        *,
    };

    fn records(enrolment: &str, owners: &str, once: &str) -> RecordsReport {
        let tag = Tag::new(format!("a {enrolment:0>75} {owners}"));
        RecordsReport { tag, once: once.into() }
    }

    #[test]
    fn reports_of_one_activation_are_equal() {
        let begun = records("1", "x", BOOTSTRAPPED);
        assert!(records("1", "other", BOOTSTRAPPED).are_those_of(&begun).is_ok());
        for other in [records("2", "x", BOOTSTRAPPED), records("1", "x", "")] {
            let found = Arc::clone(other.tag.text());
            assert_eq!(other.are_those_of(&begun), Err(Reason::WrongTag { found }));
        }
        assert!(!begun.is_complete() && records("1", "x", "").is_complete());
    }

    impl RecordsReport {
        pub(in super::super) fn of_tests(once: &str) -> Self {
            records("1", "x", once)
        }
    }

    impl<'a> Copier<'a> {
        /// Creates an attempt to copy to the first node.
        pub(in super::super) fn of_tests(set: &'a NodeSet, begun: &'a RecordsReport) -> Self {
            Self {
                set,
                node: 0,
                begun,
                reservations: KeyReservations::default(),
                shares: AtomicU32::new(0),
                copied: Mutex::default(),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn sources_share_the_rate() {
        let Scripted { set, .. } = Scripted::new("p");
        let begun = RecordsReport::of_tests(LEARNT);
        let copier = Copier::of_tests(&set, &begun);

        let pause = async |calls, bytes| {
            let turn = Instant::now();
            copier.pace(turn, calls, bytes).await;
            turn.elapsed().as_millis()
        };

        assert_eq!((pause(1, 0).await, pause(2, 0).await), (5, 10));

        let share = RateShare::new(&copier);
        assert_eq!((pause(1, 0).await, pause(1, 2_000_000).await), (5, 200));

        let other = RateShare::new(&copier);
        assert_eq!((pause(2, 0).await, pause(1, 2_000_000).await), (20, 400));

        drop(other);
        assert_eq!(pause(1, 2_000_000).await, 200, "one source has the whole rate again");

        drop(share);
        let turn = Instant::now();
        sleep(Duration::from_secs(1)).await;
        copier.pace(turn, 1, 2_000_000).await;

        assert_eq!(turn.elapsed(), Duration::from_secs(1), "its turn took longer");
    }

    #[tokio::test]
    async fn progress_is_the_sum() {
        let Scripted { set, .. } = Scripted::new("p");
        let begun = RecordsReport::of_tests(LEARNT);
        let copier = Copier::of_tests(&set, &begun);
        let status = &set.members()[0].status;
        status.set_copying(true);
        for (records, bytes) in [(2, 20), (3, 30)] {
            copier.report_progress(Copied { records, bytes });
        }

        let Copied { records, bytes } = status.copied();

        assert_eq!((records, bytes), (5, 50));
    }

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

//! What the sources of one copy share: the target, the rate and the progress.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::{NodeSet, records_report::RecordsReport};
use crate::{
    metrics,
    node::redis::status_detail::Copied,
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

/// An attempt to copy all records to a node, as its sources share it.
pub(super) struct Copier<'a> {
    pub(super) set: &'a NodeSet,
    pub(super) node: usize,
    /// The node's report before the attempt.
    pub(super) begun: &'a RecordsReport,
    /// Number of sources that share the rate.
    shares: AtomicU32,
    copied: Mutex<Copied>,
}

impl<'a> Copier<'a> {
    pub(super) fn new(set: &'a NodeSet, node: usize, begun: &'a RecordsReport) -> Self {
        Self { set, node, begun, shares: AtomicU32::new(0), copied: Mutex::default() }
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

    pub(super) fn copied(&self) -> Copied {
        *lock(&self.copied)
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

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::{
        super::{node_report::LEARNT, tests::Scripted},
        *,
    };

    #[tokio::test(start_paused = true)]
    async fn sources_share_the_rate() {
        let Scripted { set, .. } = Scripted::new("p");
        let begun = RecordsReport::of_tests(LEARNT);
        let copier = Copier::new(&set, 0, &begun);

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
        let copier = Copier::new(&set, 0, &begun);
        let status = &set.members()[0].status;
        status.set_copying(true);
        for (records, bytes) in [(2, 20), (3, 30)] {
            copier.report_progress(Copied { records, bytes });
        }

        let Copied { records, bytes } = status.copied();

        assert_eq!((records, bytes), (5, 50));
    }
}

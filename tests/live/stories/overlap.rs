//! A detector of overlaps, independent of the locks.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

/// Counts visits, which should not overlap.
#[derive(Clone, Default)]
pub(crate) struct OverlapCounter(Arc<Counts>);

#[derive(Default)]
struct Counts {
    inside: AtomicU64,
    overlaps: AtomicU64,
}

impl OverlapCounter {
    pub(crate) fn enter(&self) -> Visit {
        if self.0.inside.fetch_add(1, SeqCst) > 0 {
            self.0.overlaps.fetch_add(1, SeqCst);
        }
        Visit(self.clone())
    }

    /// The number of visits that began during another one.
    pub(crate) fn overlaps(&self) -> u64 {
        self.0.overlaps.load(SeqCst)
    }
}

/// A visit. It ends on drop, so also if the work is cancelled.
pub(crate) struct Visit(OverlapCounter);

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.0.inside.fetch_sub(1, SeqCst);
    }
}

//! A detector of overlaps. It knows nothing of locks: it only counts who is inside.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Something that only one may be inside of at a time.
#[derive(Default)]
pub(crate) struct Room {
    inside: AtomicU64,
    overlaps: AtomicU64,
}

impl Room {
    pub(crate) fn enter(&self) -> Visit<'_> {
        if self.inside.fetch_add(1, SeqCst) > 0 {
            self.overlaps.fetch_add(1, SeqCst);
        }
        Visit(self)
    }

    /// How often somebody came in while another was inside.
    pub(crate) fn overlaps(&self) -> u64 {
        self.overlaps.load(SeqCst)
    }
}

/// Leaves when it is dropped, so also where the work is cancelled.
pub(crate) struct Visit<'a>(&'a Room);

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, SeqCst);
    }
}

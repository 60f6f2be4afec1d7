//! A counter of allocations.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counts the allocations of the whole process, if the program's allocator reports them.
#[derive(Debug, Default)]
pub struct Counter {
    counts: AtomicBool,
    allocations: AtomicU64,
    bytes: AtomicU64,
}

/// The allocated memory; freed memory is not subtracted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) allocations: u64,
    pub(crate) bytes: u64,
}

impl Counter {
    /// Creates a counter that counts nothing yet.
    pub const fn new() -> Self {
        let (allocations, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { counts: AtomicBool::new(false), allocations, bytes }
    }

    /// Called by the allocator, for each request of memory.
    #[inline]
    pub fn allocated(&self, bytes: usize) {
        if self.counts.load(Ordering::Relaxed) {
            self.allocations.fetch_add(1, Ordering::Relaxed);
            self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    pub(crate) fn begin(&self) {
        self.allocations.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        self.counts.store(true, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) -> Counted {
        self.counts.store(false, Ordering::Relaxed);
        Counted {
            allocations: self.allocations.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

impl Counted {
    /// Returns allocations and bytes per operation.
    #[expect(clippy::cast_precision_loss, reason = "numbers for people")]
    pub(crate) fn per(self, count: u32) -> [f64; 2] {
        [self.allocations, self.bytes].map(|total| total as f64 / f64::from(count))
    }
}

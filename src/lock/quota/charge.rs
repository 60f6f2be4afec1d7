//! The quota of one lease.

use std::{sync::Arc, time::Duration};

use super::{
    quota::{Quota, RecordShare},
    window::{ChargedUsage, Usage},
};
use crate::{
    error::LockError,
    node::Node,
    protocol::Record,
    sync::{self, Mutex},
};

/// The quota of a lease's record. Dropping it frees what was not written.
#[derive(Debug)]
pub(crate) struct Charge {
    quota: Arc<Quota>,
    usage: Mutex<ChargedUsage>,
}

impl Charge {
    pub(crate) fn new(quota: &Arc<Quota>) -> Self {
        Self { quota: Arc::clone(quota), usage: Mutex::default() }
    }

    /// Reserves a record without an answer, before the work begins.
    pub(crate) fn reserve(
        &self,
        nodes: &[Arc<dyn Node>],
        name: &str,
        owner: &str,
        share: Option<&RecordShare>,
    ) -> Result<(), LockError> {
        let (reserved, stripe) = self.quota.reserve(nodes, bytes_of(name, owner), share)?;
        let mut taken = sync::lock(&self.usage);
        (taken.reserved, taken.stripe) = (reserved, stripe);
        Ok(())
    }

    /// Reserves an answer of `answer` bytes. Returns false if it must not be stored.
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only HTTP has answers to keep"))]
    pub(crate) fn admit(&self, nodes: &[Arc<dyn Node>], answer: usize) -> bool {
        let bytes = allocated(answer);
        let is_admitted = self.quota.admit(nodes, bytes);
        if is_admitted {
            let mut taken = sync::lock(&self.usage);
            taken.reserved.answers = taken.reserved.answers.saturating_add(bytes);
        }
        is_admitted
    }

    /// Counts the record as written, for `retain`.
    pub(crate) fn write(&self, name: &str, record: &Record, retain: Duration) {
        let mut taken = sync::lock(&self.usage);
        let before = taken.written.map(|(usage, _)| usage).unwrap_or_default();
        let mut usage = before.plus(taken.reserved);
        if usage.records == 0 {
            // The record was not reserved.
            let bytes = bytes_of(name, &record.lease.owner);
            usage = usage.plus(Usage { records: 1, bytes, answers: 0 });
        }
        let end = self.quota.write(&taken, usage, retain);
        taken.reserved = Usage::default();
        taken.written = Some((usage, end));
    }

    /// Frees the whole quota, because the record was deleted or never written.
    pub(crate) fn free(&self) {
        let taken = std::mem::take(&mut *sync::lock(&self.usage));
        self.quota.free(&taken);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let taken = self.usage.get_mut().unwrap_or_else(sync::PoisonError::into_inner);
        // What is written stays on the servers.
        taken.written = None;
        if taken.reserved != Usage::default() {
            self.quota.free(taken);
        }
    }
}

/// Bytes that a server (Redis 7.0) keeps besides the name, the owner and the answer.
const OVERHEAD: usize = 224;

/// Returns the approximate size of a record without an answer, in bytes.
fn bytes_of(name: &str, owner: &str) -> u64 {
    (OVERHEAD + name.len() + owner.len()) as u64
}

/// Returns the bytes that a server's allocator takes for `bytes`. Source: jemalloc's size classes,
/// of which there are four between a power of two and the next.
fn allocated(bytes: usize) -> u64 {
    let bytes = bytes.max(1) as u64;
    let spacing = bytes.next_power_of_two() / 8;
    bytes.next_multiple_of(spacing.max(16))
}

#[cfg(test)]
mod tests {
    use super::allocated;

    #[test]
    fn answers_take_their_size_class() {
        // From the manual of jemalloc: 56 KiB, 64 KiB, 80 KiB.
        let classes = [(1, 16), (128, 128), (129, 160), (57_345, 65_536), (65_537, 81_920)];
        for (bytes, class) in classes {
            assert_eq!(allocated(bytes), class, "{bytes}");
        }
    }
}

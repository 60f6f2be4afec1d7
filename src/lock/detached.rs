//! Work under a lock that goes on without its caller: [`Redlock::shutdown`](super::Redlock::shutdown)
//! waits for it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
#[cfg(feature = "http")]
use std::{fmt, sync::Arc};

#[cfg(feature = "http")]
use super::ActiveLease;
use super::core::{Core, POLL_INTERVAL};
use crate::time::Timestamp;

/// How much of it there is.
#[derive(Debug, Default)]
pub(crate) struct Detached {
    count: AtomicUsize,
    /// When the last of it has ended, in ns: its lock is over, and what it recorded is answered.
    until: AtomicU64,
}

/// Counts as work without a caller until it is dropped.
#[cfg(feature = "http")]
pub(crate) struct DetachedWork(Arc<Core>);

#[cfg(feature = "http")]
impl DetachedWork {
    /// Work that has ended when its lock is over.
    pub(crate) fn begin(lease: &ActiveLease) -> Self {
        let (core, until) = (lease.core(), lease.over_at());
        core.detached.until.fetch_max(until.as_nanos(), Ordering::AcqRel);
        core.detached.count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(core))
    }
}

#[cfg(feature = "http")]
impl Drop for DetachedWork {
    fn drop(&mut self) {
        self.0.detached.count.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(feature = "http")]
impl fmt::Debug for DetachedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DetachedWork")
    }
}

impl Core {
    /// Waits until no work goes on without a caller, at most until the locks of all of it are over.
    pub(crate) async fn detached_work_ended(&self) {
        loop {
            let count = self.detached.count.load(Ordering::Acquire);
            if count == 0 || self.is_forked() {
                return;
            }
            let until = Timestamp::from_nanos(self.detached.until.load(Ordering::Acquire));
            if self.clock().now() >= until {
                crate::log::warn!(
                    requests = count,
                    "shutdown goes on without requests whose callers have gone and whose locks are \
                     over: they block their thread, or their runtime does not run"
                );
                return;
            }
            self.pause(POLL_INTERVAL).await;
        }
    }
}

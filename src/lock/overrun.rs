use std::{
    sync::{Arc, Mutex},
    task::{Wake, Waker},
    time::Duration,
};

use super::lease::ActiveLease;
use crate::time::Timestamp;

/// What is done about guarded work that is inside a poll when its lock has ended: blocking code,
/// which can't be dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum Overrun {
    /// The crate's own thread says so at WARN, with the resource and by how much, and again at
    /// ever longer intervals while it goes on.
    #[default]
    Warn,
    /// The process is aborted, after a line at ERROR: another process may take the lock, and this
    /// one must not go on writing. Nothing is unwound, and no destructor runs.
    Abort,
}

/// Looks from the crate's own thread whether a poll goes on after the end of its lock.
pub(super) struct OverrunWatch {
    lease: Arc<ActiveLease>,
    policy: Overrun,
    ended: Timestamp,
    again: Mutex<Duration>,
}

const FIRST_AGAIN: Duration = Duration::from_secs(1);
const LONGEST_AGAIN: Duration = Duration::from_secs(60);

impl OverrunWatch {
    /// `ended`: the end of the validity. The first look is when the servers, too, may have
    /// forgotten the key: `slack` later.
    pub(super) fn start(
        lease: &Arc<ActiveLease>,
        policy: Overrun,
        ended: Timestamp,
        slack: Duration,
    ) {
        let again = Mutex::new(FIRST_AGAIN);
        let watch = Arc::new(Self { lease: Arc::clone(lease), policy, ended, again });
        lease.timers().insert(ended + slack, Waker::from(watch));
    }
}

impl Wake for OverrunWatch {
    fn wake(self: Arc<Self>) {
        // No poll begins after the end: one that is under way now is the one that was.
        if !self.lease.is_polled() {
            return;
        }
        self.lease.note_overrun();
        let now = self.lease.timers().clock().now();
        let (resource, by) = (self.lease.resource(), now.since(self.ended));
        match self.policy {
            Overrun::Warn => {
                tracing::warn!(
                    %resource,
                    ?by,
                    "guarded work blocks past the end of its lock, and can't be dropped"
                );
                let again = {
                    let mut again = crate::sync::lock(&self.again);
                    let next = (*again * 2).min(LONGEST_AGAIN);
                    std::mem::replace(&mut *again, next)
                };
                let lease = Arc::clone(&self.lease);
                lease.timers().insert(now + again, Waker::from(self));
            }
            Overrun::Abort => {
                tracing::error!(
                    %resource,
                    ?by,
                    "guarded work blocks past the end of its lock: the process is aborted"
                );
                std::process::abort();
            }
        }
    }
}

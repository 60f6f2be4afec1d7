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
    /// The poll that was under way at the end.
    poll: u64,
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
        poll: u64,
        policy: Overrun,
        ended: Timestamp,
        slack: Duration,
    ) {
        let again = Mutex::new(FIRST_AGAIN);
        let watch = Arc::new(Self { lease: Arc::clone(lease), poll, policy, ended, again });
        lease.timers().insert(ended + slack, Waker::from(watch));
    }
}

impl Wake for OverrunWatch {
    fn wake(self: Arc<Self>) {
        // A later one is about to find out that the lock has ended, and harms nobody.
        if self.lease.poll_under_way() != Some(self.poll) {
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

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::{EmbeddedNodes, Redlock};

    /// After the end there are a hundred milliseconds until the look.
    async fn ended(blocks: bool) -> bool {
        let nodes = EmbeddedNodes::new(1);
        let builder = Redlock::builder().nodes_from(&nodes).ttl(Duration::from_millis(200));
        let redlock = builder.drift_factor(0.5).build().unwrap();
        let lock = redlock.lock("x").auto_extend(false).await.unwrap();
        let lease = lock.lease();
        let in_time = lease.enter_poll();
        while lease.valid_until() > Timestamp::ZERO {
            thread::yield_now();
        }
        let in_poll = if blocks {
            in_time
        } else {
            drop(in_time);
            // About to find out that the lock has ended.
            lease.enter_poll()
        };
        thread::sleep(Duration::from_millis(300));
        drop(in_poll);
        lease.has_overrun()
    }

    #[tokio::test]
    async fn who_comes_after_the_end_is_not_taken_for_who_blocks_past_it() {
        assert!(ended(true).await);
        assert!(!ended(false).await);
    }
}

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
    ///
    /// That is when the servers may have forgotten the key: by the TTL's drift allowance (1 % and
    /// 2 ms by default) after the end. Why the poll goes on is not asked: it is so too where the
    /// thread gets no processor for that long, and where a machine or process that was suspended
    /// inside a poll wakes up.
    Abort,
}

/// Looks from the crate's own thread whether a poll goes on after the end of its lock.
pub(super) struct OverrunWatch {
    lease: Arc<ActiveLease>,
    /// The poll that was under way at the end.
    poll: u64,
    policy: Overrun,
    ended: Timestamp,
    look: Mutex<Look>,
}

/// The next look, and how long after it the one after that is.
#[derive(Clone, Copy)]
struct Look {
    at: Timestamp,
    pause: Duration,
}

const FIRST_AGAIN: Duration = Duration::from_secs(1);
const BEFORE_THE_LOOK: Duration = Duration::from_millis(1);
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
        let look = Look { at: ended + slack, pause: FIRST_AGAIN };
        let watch = Arc::new(Self {
            lease: Arc::clone(lease),
            poll,
            policy,
            ended,
            look: Mutex::new(look),
        });
        lease.timers().insert(look.at, Waker::from(watch));
    }

    fn look_again(self: Arc<Self>, look: Look) {
        *crate::sync::lock(&self.look) = look;
        let lease = Arc::clone(&self.lease);
        lease.timers().insert(look.at, Waker::from(self));
    }
}

impl Wake for OverrunWatch {
    fn wake(self: Arc<Self>) {
        // A later one is about to find out that the lock has ended, and harms nobody.
        let Some((_, has_begun)) =
            self.lease.poll_under_way().filter(|(poll, _)| *poll == self.poll)
        else {
            return;
        };
        let now = self.lease.timers().clock().now();
        let look = *crate::sync::lock(&self.look);
        if now < look.at {
            // All timers fire when a server's clock has jumped.
            self.look_again(look);
            return;
        }
        if !has_begun {
            // So is one that stands before its look at the clock.
            self.look_again(Look { at: now + BEFORE_THE_LOOK, ..look });
            return;
        }
        self.lease.note_overrun();
        let (resource, by) = (self.lease.resource(), now.since(self.ended));
        match self.policy {
            Overrun::Warn => {
                tracing::warn!(
                    %resource,
                    ?by,
                    "guarded work blocks past the end of its lock, and can't be dropped"
                );
                let pause = (look.pause * 2).min(LONGEST_AGAIN);
                self.look_again(Look { at: now + look.pause, pause });
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
    use crate::{EmbeddedNodes, Redlock, lock::lease::InPoll};

    /// Whether a poll that is under way when its lock ends is told of, in the end, where `then` is
    /// done half a second before the look.
    async fn is_told(then: impl for<'a> FnOnce(&'a ActiveLease, InPoll<'a>)) -> bool {
        is_told_of(true, then).await
    }

    async fn is_told_of(
        has_begun: bool,
        then: impl for<'a> FnOnce(&'a ActiveLease, InPoll<'a>),
    ) -> bool {
        let nodes = EmbeddedNodes::new(1);
        let builder = Redlock::builder().nodes_from(&nodes).ttl(Duration::from_secs(1));
        let redlock = builder.drift_factor(0.5).build().unwrap();
        let lock = redlock.lock("x").auto_extend(false).await.unwrap();
        let mut in_time = lock.lease().enter_poll();
        if has_begun {
            in_time.begin();
        }
        while lock.is_valid() || lock.lease().valid_until() > Timestamp::ZERO {
            thread::yield_now();
        }
        then(lock.lease(), in_time);
        lock.lease().has_overrun()
    }

    fn until_after_the_look() {
        thread::sleep(Duration::from_millis(900));
    }

    #[tokio::test]
    async fn who_comes_after_the_end_is_not_taken_for_who_blocks_past_it() {
        assert!(is_told(|_, _in_time| until_after_the_look()).await);
        let comes_later = |lease: &ActiveLease, in_time: InPoll<'_>| {
            drop(in_time);
            // About to find out that the lock has ended.
            let _late = lease.enter_poll();
            until_after_the_look();
        };
        assert!(!is_told(comes_later).await);
        // It stands before its look at the clock, and then finds out.
        assert!(!is_told_of(false, |_, _stands| until_after_the_look()).await);
    }

    /// All timers fire when a server's clock has jumped.
    #[tokio::test]
    async fn a_timer_that_fires_too_early_looks_again_when_it_is_time() {
        let ends_soon = |lease: &ActiveLease, in_time: InPoll<'_>| {
            // The watch is set just after the end.
            thread::sleep(Duration::from_millis(20));
            lease.timers().wake_all();
            drop(in_time);
            until_after_the_look();
        };
        assert!(!is_told(ends_soon).await);
        let blocks = |lease: &ActiveLease, _in_time: InPoll<'_>| {
            thread::sleep(Duration::from_millis(20));
            lease.timers().wake_all();
            until_after_the_look();
        };
        assert!(is_told(blocks).await);
    }
}

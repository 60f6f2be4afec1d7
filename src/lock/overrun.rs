//! Guarded work that blocks past the end of its lock.
//!
//! Work is marked as being polled *before* the clock is compared with the deadline. The background
//! thread reads the mark when a lock ends, and again when the servers may have dropped the key (one
//! drift allowance later). A poll that still runs then is an overrun: it is reported, or ends the
//! process.

use std::{
    sync::Arc,
    task::{Wake, Waker},
    time::Duration,
};

use super::{lease::ActiveLease, options::Overrun};
use crate::{events::LockEventKind, sync::Mutex, time::Timestamp};

/// Checks, on the crate's thread, whether a poll continues after the end of its lock.
pub(super) struct OverrunWatch {
    lease: Arc<ActiveLease>,
    /// Number of the poll that was under way at the end.
    poll: u64,
    policy: Overrun,
    ended: Timestamp,
    next: Mutex<OverrunCheck>,
}

/// The next check, and the pause after it.
#[derive(Clone, Copy)]
struct OverrunCheck {
    at: Timestamp,
    pause: Duration,
}

/// Pause between the first two warnings.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Maximum pause between two warnings.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Pause for a poll that has not begun its work.
const UNBEGUN_PAUSE: Duration = Duration::from_millis(1);

impl OverrunWatch {
    /// `ended`: end of the validity. The key may expire on the servers `slack` later: the first
    /// check.
    pub(super) fn start(
        lease: &Arc<ActiveLease>,
        poll: u64,
        policy: Overrun,
        ended: Timestamp,
        slack: Duration,
    ) {
        let check = OverrunCheck { at: ended + slack, pause: FIRST_PAUSE };
        let watch = Arc::new(Self {
            lease: Arc::clone(lease),
            poll,
            policy,
            ended,
            next: Mutex::new(check),
        });
        lease.timers().insert(check.at, Waker::from(watch));
    }

    fn check_again(self: Arc<Self>, check: OverrunCheck) {
        *crate::sync::lock(&self.next) = check;
        let lease = Arc::clone(&self.lease);
        lease.timers().insert(check.at, Waker::from(self));
    }
}

impl Wake for OverrunWatch {
    fn wake(self: Arc<Self>) {
        // A later poll will find that the lock has ended.
        let Some((_, has_begun)) =
            self.lease.poll_under_way().filter(|(poll, _)| *poll == self.poll)
        else {
            return;
        };
        let now = self.lease.timers().clock().now();
        let check = *crate::sync::lock(&self.next);
        if now < check.at {
            // All timers fire after a jump of a server's clock.
            return self.check_again(check);
        }
        if !has_begun {
            // The poll has not read the clock yet.
            return self.check_again(OverrunCheck { at: now + UNBEGUN_PAUSE, ..check });
        }
        self.lease.note_overrun();
        let (resource, by) = (self.lease.resource(), now.saturating_duration_since(self.ended));
        let shared = self.lease.is_shared();
        self.lease.send_event(|| LockEventKind::Overrun { resource: resource.clone(), shared, by });
        match self.policy {
            Overrun::Warn => {
                crate::log::warn!(
                    %resource,
                    ?by,
                    "guarded work blocks past the end of its lock, and can't be dropped"
                );
                let pause = (check.pause * 2).min(MAX_PAUSE);
                self.check_again(OverrunCheck { at: now + check.pause, pause });
            }
            Overrun::Abort => {
                crate::log::error!(
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
    use super::*;
    use crate::{
        hand_clock::HandClock,
        lock::{Lock, lease::PollGuard},
        node::EmbeddedNodes,
    };

    const TTL: Duration = Duration::from_secs(10);
    const VALIDITY: Duration = Duration::from_millis(9_898);

    struct OverrunFixture {
        clock: HandClock,
        lock: Lock,
    }

    impl OverrunFixture {
        async fn new() -> Self {
            Self::with(Duration::ZERO).await
        }

        async fn with(granularity: Duration) -> Self {
            let clock = HandClock::unwatched().with_granularity(granularity);
            let nodes = EmbeddedNodes::with_clock(1, clock.clone());
            let redlock = clock.builder().nodes_from(&nodes).ttl(TTL).build().unwrap();
            let lock = redlock.lock("x").auto_extend(false).await.unwrap();
            Self { clock, lock }
        }

        fn enter(&self) -> PollGuard<'_> {
            self.lock.lease().enter_poll()
        }

        fn begin(&self) -> PollGuard<'_> {
            let mut poll = self.enter();
            poll.begin();
            poll
        }

        /// Fires all timers, as after a jump of a server's clock.
        fn fire(&self) {
            self.lock.lease().timers().wake_all();
        }

        fn advance(&self, by: Duration) {
            self.clock.advance(by);
            self.fire();
        }

        fn end(&self) {
            self.advance(VALIDITY);
            assert!(!self.lock.is_valid());
        }

        /// Advances to the time when the key may have expired on the servers.
        fn advance_to_check(&self) {
            self.advance(TTL.saturating_sub(VALIDITY));
        }

        fn has_overrun(&self) -> bool {
            self.lock.lease().has_overrun()
        }
    }

    #[tokio::test]
    async fn poll_past_the_end_is_reported() {
        let scene = OverrunFixture::new().await;
        let poll = scene.begin();
        scene.end();
        scene.fire();
        assert!(!scene.has_overrun(), "too early");
        scene.advance_to_check();
        assert!(scene.has_overrun());
        drop(poll);
    }

    #[tokio::test]
    async fn poll_that_ends_is_not_reported() {
        let scene = OverrunFixture::new().await;
        let poll = scene.begin();
        scene.end();
        scene.fire();
        drop(poll);
        scene.advance_to_check();
        assert!(!scene.has_overrun());
    }

    #[tokio::test]
    async fn later_poll_is_not_reported() {
        let scene = OverrunFixture::new().await;

        drop(scene.begin());
        let in_time = scene.begin();
        scene.end();
        drop(in_time);
        // It will find that the lock has ended.
        let _late = scene.begin();
        scene.advance_to_check();

        assert!(!scene.has_overrun());
    }

    #[tokio::test]
    async fn unbegun_poll_is_awaited() {
        let scene = OverrunFixture::new().await;
        let mut poll = scene.enter();

        scene.end();
        scene.advance_to_check();
        assert!(!scene.has_overrun());

        // It had read the clock just before the end.
        poll.begin();
        scene.advance(UNBEGUN_PAUSE);

        assert!(scene.has_overrun());
    }

    #[tokio::test]
    async fn early_hard_stop_is_no_overrun() {
        let scene = OverrunFixture::with(Duration::from_millis(2)).await;
        let lead = scene.lock.lease().timers().lead();

        assert!(lead > Duration::ZERO);
        let poll = scene.begin();
        scene.advance(VALIDITY.saturating_sub(lead));
        assert!(!scene.lock.is_valid(), "the hard stop");
        assert!(!scene.lock.lease().is_past_end());
        scene.advance(lead);
        assert!(scene.lock.lease().is_past_end());
        scene.advance(TTL.saturating_sub(VALIDITY + Duration::from_nanos(1)));
        assert!(!scene.has_overrun(), "the servers keep the key until the end of the TTL");
        scene.advance(Duration::from_nanos(1));
        assert!(scene.has_overrun());
        drop(poll);
    }
}

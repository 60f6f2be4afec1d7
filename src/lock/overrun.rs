use std::{
    sync::{Arc, Mutex},
    task::{Wake, Waker},
    time::Duration,
};

use super::lease::ActiveLease;
use crate::time::Timestamp;

/// What is done about guarded work that is inside a poll when its lock has ended: blocking code,
/// which can't be dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "config",
    derive(serde::Deserialize, serde::Serialize),
    serde(rename_all = "lowercase")
)]
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
                crate::log::warn!(
                    %resource,
                    ?by,
                    "guarded work blocks past the end of its lock, and can't be dropped"
                );
                let pause = (look.pause * 2).min(LONGEST_AGAIN);
                self.look_again(Look { at: now + look.pause, pause });
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
    use std::{
        future::Future,
        pin::Pin,
        sync::atomic::{AtomicU64, Ordering},
    };

    use super::*;
    use crate::{
        EmbeddedNodes, Redlock,
        lock::{Lock, Spawner, lease::InPoll},
        time::Clock,
    };

    const TTL: Duration = Duration::from_secs(10);
    const VALIDITY: Duration = Duration::from_millis(9_898);

    #[derive(Clone, Debug, Default)]
    struct HandClock {
        now: Arc<AtomicU64>,
        granularity: Duration,
    }

    impl Clock for HandClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_nanos(self.now.load(Ordering::SeqCst))
        }

        fn granularity(&self) -> Duration {
            self.granularity
        }
    }

    /// Nobody but the test fires timers.
    #[derive(Debug)]
    struct Nobody;

    impl Spawner for Nobody {
        fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
            drop(task);
        }
    }

    struct Scene {
        clock: HandClock,
        lock: Lock,
    }

    impl Scene {
        async fn new() -> Self {
            Self::with(Duration::ZERO).await
        }

        async fn with(granularity: Duration) -> Self {
            let clock = HandClock { granularity, ..HandClock::default() };
            clock.now.store(86_400_000_000_000, Ordering::SeqCst);
            let nodes = EmbeddedNodes::with_clock(1, clock.clone());
            let builder = Redlock::builder().nodes_from(&nodes).ttl(TTL);
            let redlock = builder.clock(clock.clone()).spawner(Nobody).build().unwrap();
            let lock = redlock.lock("x").auto_extend(false).await.unwrap();
            Self { clock, lock }
        }

        fn enter(&self) -> InPoll<'_> {
            self.lock.lease().enter_poll()
        }

        fn begin(&self) -> InPoll<'_> {
            let mut poll = self.enter();
            poll.begin();
            poll
        }

        /// All timers fire, as they do when a server's clock has jumped.
        fn fire(&self) {
            self.lock.lease().timers().wake_all();
        }

        fn advance(&self, by: Duration) {
            let nanos = u64::try_from(by.as_nanos()).unwrap();
            self.clock.now.fetch_add(nanos, Ordering::SeqCst);
            self.fire();
        }

        fn end(&self) {
            self.advance(VALIDITY);
            assert!(!self.lock.is_valid());
        }

        /// To when the servers may have forgotten the key.
        fn come_to_the_look(&self) {
            self.advance(TTL.saturating_sub(VALIDITY));
        }

        fn has_overrun(&self) -> bool {
            self.lock.lease().has_overrun()
        }
    }

    #[tokio::test]
    async fn a_poll_that_goes_on_is_told_of_when_it_is_time_and_not_before() {
        let scene = Scene::new().await;
        let poll = scene.begin();
        scene.end();
        scene.fire();
        assert!(!scene.has_overrun(), "it is looked again");
        scene.come_to_the_look();
        assert!(scene.has_overrun());
        drop(poll);
    }

    #[tokio::test]
    async fn a_poll_that_ends_in_the_meantime_is_not_told_of() {
        let scene = Scene::new().await;
        let poll = scene.begin();
        scene.end();
        scene.fire();
        drop(poll);
        scene.come_to_the_look();
        assert!(!scene.has_overrun());
    }

    #[tokio::test]
    async fn who_comes_after_the_end_is_not_taken_for_who_blocks_past_it() {
        let scene = Scene::new().await;
        drop(scene.begin());
        let in_time = scene.begin();
        scene.end();
        drop(in_time);
        // About to find out that the lock has ended.
        let _late = scene.begin();
        scene.come_to_the_look();
        assert!(!scene.has_overrun());
    }

    #[tokio::test]
    async fn a_poll_that_stands_before_its_look_at_the_clock_is_waited_for() {
        let scene = Scene::new().await;
        let mut poll = scene.enter();
        scene.end();
        scene.come_to_the_look();
        assert!(!scene.has_overrun());
        // It had looked just before the end, and works now.
        poll.begin();
        scene.advance(BEFORE_THE_LOOK);
        assert!(scene.has_overrun());
    }

    #[tokio::test]
    async fn a_hard_stop_before_the_end_overruns_nothing() {
        let scene = Scene::with(Duration::from_millis(2)).await;
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

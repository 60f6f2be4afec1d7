//! Guarded work that hangs, or sends no heartbeat.

use std::{
    sync::Arc,
    task::{Wake, Waker},
    time::Duration,
};

use super::{lease::ActiveLease, settings::Plan};
use crate::{quorum::Halt, sync::Mutex, time::Timestamp};

/// Checks, on the crate's thread, whether the work of a lease hangs in a poll or sends no
/// heartbeat, and then stops the renewal.
///
/// There are four checks per limit, and the time between two counts for at most the planned pause.
/// So after a suspension of the machine or process, healthy work has the rest of its limit to
/// continue. A stall is found between the limit and a quarter more after its beginning.
pub(crate) struct StallWatch {
    /// A grant that ends removes its checks.
    lease: Arc<ActiveLease>,
    pause: Duration,
    stall: Option<Duration>,
    heartbeat: Option<Duration>,
    polled: Option<Duration>,
    samples: Mutex<StallSamples>,
}

struct StallSamples {
    last: Timestamp,
    poll: Unchanged,
    beats: Unchanged,
    polls: Unchanged,
}

/// Time for which a value did not change.
#[derive(Default)]
struct Unchanged {
    value: Option<u64>,
    lasts: Duration,
}

/// Number of checks per limit.
const CHECKS_PER_LIMIT: u32 = 4;
/// The value that stands for the number of a poll before the first poll.
const UNPOLLED: u64 = u64::MAX;
/// Minimum pause between two checks.
const MIN_PAUSE: Duration = Duration::from_millis(1);

impl StallWatch {
    /// Returns whether a request with this plan has limits.
    pub(super) fn is_wanted(plan: &Plan) -> bool {
        Self::shortest_limit(plan).is_some()
    }

    fn shortest_limit(plan: &Plan) -> Option<Duration> {
        [plan.stall_limit, plan.heartbeat_within, plan.polled_within].into_iter().flatten().min()
    }

    /// Starts the checks, unless the request has no limits.
    pub(super) fn start(lease: &Arc<ActiveLease>) {
        let plan = lease.plan();
        let Some(shortest) = Self::shortest_limit(plan) else { return };
        let (stall, heartbeat, polled) =
            (plan.stall_limit, plan.heartbeat_within, plan.polled_within);
        // Rounded up, so that four pauses are at least the limit.
        let pause = shortest.saturating_add(Duration::from_nanos(u64::from(CHECKS_PER_LIMIT) - 1))
            / CHECKS_PER_LIMIT;
        let pause = pause.max(MIN_PAUSE);
        let last = lease.timers().clock().now();
        let beats = Unchanged { value: Some(0), lasts: Duration::ZERO };
        let (poll, polls) = (Unchanged::default(), Unchanged::default());
        let samples = Mutex::new(StallSamples { last, poll, beats, polls });
        let watch = Self { lease: Arc::clone(lease), pause, stall, heartbeat, polled, samples };
        lease.watch_stall(Waker::from(Arc::new(watch)), last + pause);
    }

    /// Returns the fault of the work, its name, and its duration.
    fn check(&self, lease: &ActiveLease, now: Timestamp) -> Option<(Halt, &'static str, Duration)> {
        let mut samples = crate::sync::lock(&self.samples);
        let passed = now.saturating_duration_since(samples.last).min(self.pause);
        samples.last = now;
        let poll = lease.poll_under_way().filter(|(_, has_begun)| *has_begun);
        // A grant that its task has not received counts as a poll.
        let poll = poll.map(|(poll, _)| poll).or(lease.is_unpolled().then_some(UNPOLLED));
        let in_poll = samples.poll.add(poll, passed);
        let silent = samples.beats.add((!lease.is_resting()).then(|| lease.beats()), passed);
        let unpolled = samples.polls.add((!lease.blocks()).then(|| lease.polls()), passed);
        if self.stall.is_some_and(|limit| in_poll >= limit) {
            return Some((Halt::Stalled, "hangs in one poll", in_poll));
        }
        if self.polled.is_some_and(|limit| unpolled >= limit) {
            return Some((Halt::Stalled, "is not polled, so its runtime hangs", unpolled));
        }
        let is_silent = self.heartbeat.is_some_and(|limit| silent >= limit);
        is_silent.then_some((Halt::NoHeartbeat, "gives no heartbeat", silent))
    }
}

impl Unchanged {
    /// Adds a sample, `passed` after the last one. Returns the time without a change.
    fn add(&mut self, value: Option<u64>, passed: Duration) -> Duration {
        let stays = value.is_some() && value == self.value;
        self.value = value;
        self.lasts = if stays { self.lasts + passed } else { Duration::ZERO };
        self.lasts
    }
}

impl Wake for StallWatch {
    fn wake(self: Arc<Self>) {
        let lease = Arc::clone(&self.lease);
        let now = lease.timers().clock().now();
        let Some((why, problem, for_at_least)) = self.check(&lease, now) else {
            let next = now + self.pause;
            return lease.watch_stall(Waker::from(self), next);
        };
        if lease.halt(why) {
            let (resource, valid_for) = (lease.resource(), lease.remaining());
            crate::log::warn!(
                %resource,
                ?for_at_least,
                ?valid_for,
                "guarded work {problem}: its lock is not renewed any more"
            );
        }
    }
}

#[cfg(all(test, feature = "testing", feature = "scheduler"))]
mod tests {
    use std::{
        future::Future,
        pin::Pin,
        task::{Context, Poll, Waker},
    };

    use super::*;
    use crate::{
        Lock, LockOptions, LockRequest,
        error::LossCause,
        testing::{ManualClock, Nodes, Task},
    };

    const LIMIT: Duration = Duration::from_secs(4);
    const QUARTER: Duration = Duration::from_secs(1);
    /// The default TTL: longer than any validity.
    const TTL: Duration = Duration::from_secs(10);

    struct StallFixture {
        clock: ManualClock,
        lock: Lock,
        lost: Task<LossCause>,
    }

    impl StallFixture {
        fn new(request: impl FnOnce(LockRequest) -> LockRequest) -> Self {
            let clock = ManualClock::new();
            let redlock = Nodes::new(3, &clock).replica("a").redlock();
            let request = request(redlock.lock("x"));
            let mut acquired = clock.spawn(request.acquire_for_work());
            clock.settle();
            let lock = acquired.take().unwrap().unwrap();
            let lost = clock.spawn(lock.lost());
            Self { clock, lock, lost }
        }

        fn stalling() -> Self {
            Self::new(|request| request.options(LockOptions::new().stall_limit(LIMIT)))
        }

        fn beating() -> Self {
            Self::new(|request| request.options(LockOptions::new().heartbeat_within(LIMIT)))
        }

        /// Returns whether the lock is still renewed, after one more TTL.
        fn is_renewed(&self) -> bool {
            self.clock.advance(TTL);
            self.lock.is_valid()
        }
    }

    #[test]
    fn hanging_poll_loses_the_lock() {
        let mut scene = StallFixture::stalling();
        let mut poll = scene.lock.lease().enter_poll();

        poll.begin();
        // The first check is after a quarter; then the limit passes.
        scene.clock.advance(QUARTER + LIMIT);
        assert!(scene.lock.is_valid(), "its validity is not cut");
        assert!(!scene.is_renewed());
        assert_eq!(scene.lost.take(), Some(LossCause::Stalled { limit: LIMIT }));
        drop(poll);
    }

    #[test]
    fn untaken_lock_is_lost() {
        let mut scene = StallFixture::stalling();
        scene.clock.advance(QUARTER + LIMIT);
        assert!(!scene.is_renewed());
        assert_eq!(scene.lost.take(), Some(LossCause::Stalled { limit: LIMIT }));
    }

    #[test]
    fn short_polls_are_no_stall() {
        let scene = StallFixture::stalling();
        for _ in 0..10 {
            let mut poll = scene.lock.lease().enter_poll();
            poll.begin();
            scene.clock.advance(LIMIT);
        }
        assert!(scene.is_renewed());
    }

    #[test]
    fn suspension_is_no_stall() {
        let scene = StallFixture::stalling();
        let mut poll = scene.lock.lease().enter_poll();
        poll.begin();
        scene.clock.advance(QUARTER);
        scene.clock.leap(LIMIT * 2);
        drop(poll);
        assert!(scene.is_renewed());
    }

    #[test]
    fn early_timers_are_no_checks() {
        let scene = StallFixture::stalling();
        let mut poll = scene.lock.lease().enter_poll();

        poll.begin();
        scene.clock.advance(QUARTER);
        for _ in 0..10 {
            scene.lock.lease().timers().wake_all();
        }
        scene.clock.advance(QUARTER * 3);
        drop(poll);

        assert!(scene.is_renewed());
    }

    #[test]
    fn missing_heartbeat_loses_the_lock() {
        let mut scene = StallFixture::beating();
        scene.clock.advance(LIMIT);
        assert!(scene.lock.is_valid());
        assert!(!scene.is_renewed());
        assert_eq!(scene.lost.take(), Some(LossCause::NoHeartbeat { limit: LIMIT }));
    }

    #[test]
    fn heartbeats_keep_the_lock() {
        let mut scene = StallFixture::beating();
        for _ in 0..20 {
            scene.clock.advance(QUARTER * 3);
            scene.lock.context().heartbeat();
        }
        assert_eq!(scene.lost.take(), None);
        scene.clock.advance(LIMIT + QUARTER);
        assert!(!scene.is_renewed(), "no more heartbeats");
    }

    #[test]
    fn release_removes_the_timer() {
        let scene = StallFixture::stalling();
        let timers = Arc::clone(scene.lock.lease().timers());
        assert_eq!(timers.len(), 2, "renewal and watch");
        drop(scene.lock);
        assert_eq!(timers.len(), 0);
    }

    #[test]
    fn zero_limits_are_refused() {
        let redlock = crate::Redlock::embedded();

        for request in [
            LockOptions::new().stall_limit(Duration::ZERO),
            LockOptions::new().heartbeat_within(Duration::ZERO),
        ] {
            let mut acquire = redlock.lock("x").options(request).acquire_for_work();
            let mut cx = Context::from_waker(Waker::noop());
            let polled = Pin::new(&mut acquire).poll(&mut cx);
            let Poll::Ready(Err(error)) = polled else { panic!("{polled:?}") };
            assert!(matches!(error, crate::LockError::InvalidRequest(_)), "{error}");
        }
    }

    #[test]
    fn unlimited_hold_continues() {
        let mut scene = StallFixture::new(|request| request.max_hold(Duration::MAX));
        scene.clock.advance(Duration::from_secs(3_600));
        assert!(scene.lock.is_valid());
        assert_eq!(scene.lost.take(), None);
    }
}

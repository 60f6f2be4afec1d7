use std::{
    sync::{Arc, Mutex, Weak},
    task::Wake,
    time::Duration,
};

use super::{lease::ActiveLease, settings::Plan};
use crate::{quorum::Halt, time::Timestamp};

/// Looks from the crate's own thread whether the work of a lease hangs in a poll, or gives no sign
/// of life, and then lets the lease run out.
///
/// It looks four times per limit, and a look counts for no more than the pause that was planned
/// before it. So time in which nobody could look (the machine was suspended, the process stopped)
/// counts for one pause at most: work that was healthy before has the rest of its limit to go on.
/// A stall is found between the limit and a quarter more after its beginning.
pub(crate) struct StallWatch {
    lease: Weak<ActiveLease>,
    pause: Duration,
    stall: Option<Duration>,
    heartbeat: Option<Duration>,
    polled: Option<Duration>,
    seen: Mutex<Seen>,
}

struct Seen {
    last: Timestamp,
    poll: Stillness,
    beats: Stillness,
    polls: Stillness,
}

/// What shows that work does not get on.
#[derive(Clone, Copy)]
enum Sign {
    /// A poll that does not end.
    Poll,
    /// No poll, though the work was woken.
    NoPoll,
    NoBeat,
}

/// For how long something has been seen to stay the same.
#[derive(Default)]
struct Stillness {
    mark: Option<u64>,
    lasts: Duration,
}

const LOOKS: u32 = 4;
/// In place of the number of a poll, while there was none.
const UNTAKEN: u64 = u64::MAX;

impl StallWatch {
    /// Does nothing for a plan without limits.
    pub(super) fn start(lease: &Arc<ActiveLease>, plan: &Plan) {
        let (stall, heartbeat, polled) =
            (plan.stall_limit, plan.heartbeat_within, plan.polled_within);
        let limits = [stall, heartbeat, polled].into_iter().flatten();
        let Some(shortest) = limits.min() else { return };
        // Rounded up, so that four pauses are no less than the limit.
        let pause = shortest.saturating_add(Duration::from_nanos(u64::from(LOOKS) - 1)) / LOOKS;
        let pause = pause.max(SHORTEST_PAUSE);
        let last = lease.timers().clock().now();
        let beats = Stillness { mark: Some(0), lasts: Duration::ZERO };
        let (poll, polls) = (Stillness::default(), Stillness::default());
        let seen = Seen { last, poll, beats, polls };
        let next = last + pause;
        let seen = Mutex::new(seen);
        let lease_of = Arc::downgrade(lease);
        let watch = Self { lease: lease_of, pause, stall, heartbeat, polled, seen };
        lease.watch_stall(Arc::new(watch), next);
    }

    /// What is wrong with the work, if something is, and for how long it has been seen.
    fn look(&self, lease: &ActiveLease, now: Timestamp) -> Option<(Halt, Sign, Duration)> {
        let mut seen = crate::sync::lock(&self.seen);
        let passed = now.since(seen.last).min(self.pause);
        seen.last = now;
        let poll = lease.poll_under_way().filter(|(_, has_begun)| *has_begun);
        // What was granted to a task that does not take it hangs as well.
        let poll = poll.map(|(poll, _)| poll).or(lease.is_untaken().then_some(UNTAKEN));
        let in_poll = seen.poll.see(poll, passed);
        let silent = seen.beats.see((!lease.is_resting()).then(|| lease.beats()), passed);
        let unpolled = seen.polls.see((!lease.blocks()).then(|| lease.polls()), passed);
        if self.stall.is_some_and(|limit| in_poll >= limit) {
            return Some((Halt::Stalled, Sign::Poll, in_poll));
        }
        if self.polled.is_some_and(|limit| unpolled >= limit) {
            return Some((Halt::Stalled, Sign::NoPoll, unpolled));
        }
        let is_silent = self.heartbeat.is_some_and(|limit| silent >= limit);
        is_silent.then_some((Halt::NoHeartbeat, Sign::NoBeat, silent))
    }
}

/// Below this, looking would be all that the thread does.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

impl Stillness {
    /// How long `mark` has been seen, `passed` being the time since the last look.
    fn see(&mut self, mark: Option<u64>, passed: Duration) -> Duration {
        let stays = mark.is_some() && mark == self.mark;
        self.mark = mark;
        self.lasts = if stays { self.lasts + passed } else { Duration::ZERO };
        self.lasts
    }
}

impl Wake for StallWatch {
    fn wake(self: Arc<Self>) {
        let Some(lease) = self.lease.upgrade() else { return };
        let now = lease.timers().clock().now();
        let Some((why, sign, lasts)) = self.look(&lease, now) else {
            let next = now + self.pause;
            lease.watch_stall(self, next);
            return;
        };
        if !lease.halt(why) {
            return;
        }
        let (resource, valid_for) = (lease.resource(), lease.remaining());
        match sign {
            Sign::Poll => crate::log::warn!(
                %resource,
                for_at_least = ?lasts,
                ?valid_for,
                "guarded work hangs in one poll: its lock is not renewed any more"
            ),
            Sign::NoPoll => crate::log::warn!(
                %resource,
                for_at_least = ?lasts,
                ?valid_for,
                "guarded work is not polled, so its runtime hangs: its lock is not renewed any more"
            ),
            Sign::NoBeat => crate::log::warn!(
                %resource,
                for_at_least = ?lasts,
                ?valid_for,
                "guarded work gives no heartbeat: its lock is not renewed any more"
            ),
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
        Lock, LockOptions, LockRequest, LossCause,
        testing::{ManualClock, Nodes, Task},
    };

    const LIMIT: Duration = Duration::from_secs(4);
    const QUARTER: Duration = Duration::from_secs(1);
    /// The default TTL: longer than any validity.
    const TTL: Duration = Duration::from_secs(10);

    struct Scene {
        clock: ManualClock,
        lock: Lock,
        lost: Task<LossCause>,
    }

    impl Scene {
        fn new(request: impl FnOnce(LockRequest) -> LockRequest) -> Self {
            let clock = ManualClock::new();
            let redlock = Nodes::new(3, &clock).replica("a").redlock();
            let request = request(redlock.lock("x"));
            let mut acquired = clock.spawn(request.acquire());
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

        /// Whether the lock is renewed still: asked last, as it lets a TTL pass.
        fn is_renewed(&self) -> bool {
            self.clock.advance(TTL);
            self.lock.is_valid()
        }
    }

    #[test]
    fn a_poll_that_hangs_lets_the_lock_run_out() {
        let mut scene = Scene::stalling();
        let mut poll = scene.lock.lease().enter_poll();
        poll.begin();
        // Seen first after a quarter, and then for the limit.
        scene.clock.advance(QUARTER + LIMIT);
        assert!(scene.lock.is_valid(), "what is valid is not cut");
        assert!(!scene.is_renewed());
        assert_eq!(scene.lost.take(), Some(LossCause::Stalled { limit: LIMIT }));
        drop(poll);
    }

    #[test]
    fn a_lock_that_no_work_takes_runs_out() {
        let mut scene = Scene::stalling();
        scene.clock.advance(QUARTER + LIMIT);
        assert!(!scene.is_renewed());
        assert_eq!(scene.lost.take(), Some(LossCause::Stalled { limit: LIMIT }));
    }

    #[test]
    fn a_poll_that_ends_before_the_limit_is_no_stall() {
        let scene = Scene::stalling();
        for _ in 0..10 {
            let mut poll = scene.lock.lease().enter_poll();
            poll.begin();
            scene.clock.advance(LIMIT);
        }
        assert!(scene.is_renewed());
    }

    #[test]
    fn a_leap_over_the_limit_condemns_nobody() {
        let scene = Scene::stalling();
        let mut poll = scene.lock.lease().enter_poll();
        poll.begin();
        scene.clock.advance(QUARTER);
        scene.clock.leap(LIMIT * 2);
        drop(poll);
        assert!(scene.is_renewed());
    }

    #[test]
    fn timers_that_fire_early_are_no_looks() {
        let scene = Scene::stalling();
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
    fn without_a_heartbeat_the_lock_runs_out() {
        let mut scene = Scene::beating();
        scene.clock.advance(LIMIT);
        assert!(scene.lock.is_valid());
        assert!(!scene.is_renewed());
        assert_eq!(scene.lost.take(), Some(LossCause::NoHeartbeat { limit: LIMIT }));
    }

    #[test]
    fn heartbeats_keep_the_lock() {
        let mut scene = Scene::beating();
        for _ in 0..20 {
            scene.clock.advance(QUARTER * 3);
            scene.lock.context().heartbeat();
        }
        assert_eq!(scene.lost.take(), None);
        scene.clock.advance(LIMIT + QUARTER);
        assert!(!scene.is_renewed(), "none came any more");
    }

    #[test]
    fn a_lock_that_was_given_back_leaves_no_timer() {
        let scene = Scene::stalling();
        let timers = Arc::clone(scene.lock.lease().timers());
        assert_eq!(timers.len(), 2, "renewal and watch");
        drop(scene.lock);
        assert_eq!(timers.len(), 0);
    }

    #[test]
    fn limits_of_zero_are_refused() {
        let redlock = crate::Redlock::embedded();
        for request in [
            LockOptions::new().stall_limit(Duration::ZERO),
            LockOptions::new().heartbeat_within(Duration::ZERO),
        ] {
            let mut acquire = redlock.lock("x").options(request).acquire();
            let mut cx = Context::from_waker(Waker::noop());
            let polled = Pin::new(&mut acquire).poll(&mut cx);
            let Poll::Ready(Err(error)) = polled else { panic!("{polled:?}") };
            assert!(matches!(error, crate::LockError::InvalidRequest(_)), "{error}");
        }
    }

    #[test]
    fn a_hold_without_limit_goes_on() {
        let mut scene = Scene::new(|request| request.max_hold(Duration::MAX));
        scene.clock.advance(Duration::from_secs(3_600));
        assert!(scene.lock.is_valid());
        assert_eq!(scene.lost.take(), None);
    }
}

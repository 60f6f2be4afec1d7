//! A clock that tests move.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Weak},
    time::Duration,
};

use super::{
    tasks::{ManualSpawner, Task, Tasks},
    time::{CommonTime, ManualSleep},
};
use crate::{
    sync::Mutex,
    time::{Clock, Timestamp},
};

/// A clock that moves only when a test moves it.
///
/// Clones are the same clock. [`ahead_by`](Self::ahead_by), [`behind_by`](Self::behind_by) and
/// [`running_fast_by`](Self::running_fast_by) create *views*: the readings of another machine at
/// the same moment. All views share one time, whichever of them moves it.
///
/// The first moment is the same in every run: a day after the origin, with a wall clock of
/// 2025-01-01 00:00 UTC.
///
/// # Effects of `advance`
///
/// When `advance` returns, these have happened:
///
/// * Everything that waited for a moment up to now was woken: tasks of any runtime, and the threads
///   of managers.
/// * [Tasks of the clock](Self::spawn), and the tasks of managers with its
///   [`spawner`](Self::spawner), have run until each of them waits. They ran on the thread that
///   moved the clock, each at the moment that it waited for, in the order of these moments and of
///   their wake-ups.
///
/// Tasks of other runtimes were woken, but may not have run: await them. A manager without the
/// clock's spawner runs its timers on its own thread, some time after `advance`.
///
/// Several threads may move the clock, one at a time. A task of the clock must not block on another
/// thread that moves it.
///
/// # The end of its tasks
///
/// The drop of the last handle of the clock, which [`Nodes`](super::Nodes) and
/// [`Replica`](super::Replica) have as well, drops all tasks: also those of managers and schedulers that
/// were not shut down. Managers keep no handle. A task or a job that has one itself keeps all tasks: end
/// it, or shut its scheduler down, at the end of the test.
#[derive(Clone, Debug)]
pub struct ManualClock {
    weak: WeakClock,
    /// Owns the tasks.
    tasks: Arc<Tasks>,
}

/// A clock that does not keep its tasks, for what these may have.
#[derive(Clone, Debug)]
pub(super) struct WeakClock {
    time: Arc<CommonTime>,
    tasks: Weak<Tasks>,
    view: Arc<ClockView>,
}

/// The readings of one machine: its own time, and its wall clock.
#[derive(Debug)]
struct ClockView {
    /// The time at which the view was created: in common time, and in its own.
    made: (u64, u64),
    /// Its rate relative to the common time, in millionths.
    fast_by: i32,
    /// The wall clock at a moment of its own time.
    wall: Mutex<(Duration, u64)>,
}

const MILLION: u64 = 1_000_000;
const START: u64 = 24 * 3600 * 1_000 * MILLION;
const START_WALL: Duration = Duration::from_secs(1_735_689_600);

impl ClockView {
    fn at(&self, common: u64) -> u64 {
        let passed = u128::from(common.saturating_sub(self.made.0)) * u128::from(self.rate());
        self.made.1.saturating_add(narrow(passed / u128::from(MILLION)))
    }

    /// Returns the first common moment at which the view shows `own`.
    fn common_at(&self, own: u64) -> u64 {
        let to_pass = u128::from(own.saturating_sub(self.made.1)) * u128::from(MILLION);
        self.made.0.saturating_add(narrow(to_pass.div_ceil(u128::from(self.rate()))))
    }

    /// Returns its nanoseconds in a common millisecond.
    fn rate(&self) -> u64 {
        MILLION.saturating_add_signed(i64::from(self.fast_by)).max(1)
    }

    fn wall(&self, own: u64) -> Duration {
        let (shown, since) = *crate::sync::lock(&self.wall);
        shown.saturating_add(Duration::from_nanos(own.saturating_sub(since)))
    }
}

fn passed_and_a_day(passed: u64) -> Duration {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    Duration::from_nanos(passed).saturating_add(DAY)
}

fn narrow(nanos: u128) -> u64 {
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

impl ManualClock {
    /// Creates a clock at its first moment, with the [seed](Self::with_seed) zero.
    pub fn new() -> Self {
        Self::with_seed(0)
    }

    /// Creates a clock with other random numbers: managers draw their backoffs and nonces from
    /// `seed` while the clock is moved or settled. The same test with the same seed has the same
    /// outcome; a loop over seeds tries different orders of events. Futures that are polled
    /// elsewhere draw from the system.
    pub fn with_seed(seed: u64) -> Self {
        let wall = Mutex::new((START_WALL, START));
        let tasks = Arc::new(Tasks::new(seed));
        let weak = WeakClock {
            time: Arc::new(CommonTime::starting_at(START)),
            tasks: Arc::downgrade(&tasks),
            view: Arc::new(ClockView { made: (START, START), fast_by: 0, wall }),
        };
        Self { weak, tasks }
    }

    /// Returns the clock without its tasks.
    pub(super) fn weak(&self) -> &WeakClock {
        &self.weak
    }

    /// Moves time step by step. At each moment that something waits for, it wakes the waiting tasks
    /// and runs the clock's tasks. Locks are renewed meanwhile if their manager has the clock's
    /// [`spawner`](Self::spawner).
    ///
    /// # Panics
    ///
    /// If a task of the clock panics, or wakes itself forever.
    pub fn advance(&self, by: Duration) {
        let _lock = self.tasks.lock.lock();
        let target = self.weak.time.now().saturating_add(narrow(by.as_nanos()));
        // Their waits count from now.
        self.tasks.run_ready();
        self.advance_to(target);
    }

    fn advance_to(&self, target: u64) {
        let _lock = self.tasks.lock.lock();
        while self.weak.time.step(target) {
            self.tasks.run_ready();
        }
        self.tasks.run_ready();
    }

    /// [Advances](Self::advance) together with tokio's time, for work that sleeps with
    /// `tokio::time`, has timeouts, or spawns tasks.
    ///
    /// For tests on a runtime whose time is paused (`#[tokio::test(start_paused = true)]`): as soon
    /// as every task waits, both clocks move to the next moment that something waits for, on either
    /// of them. The outcome is the same in every run. If tokio's time is not paused, this takes
    /// `by` in real time, and the order of events is not fixed.
    ///
    /// Tokio's timers count whole milliseconds: they fire up to 1 ms late.
    ///
    /// # Cancel safety
    ///
    /// Safe: the clock stays where it is.
    ///
    /// # Panics
    ///
    /// As [`advance`](Self::advance), and outside a tokio runtime with time enabled.
    pub async fn advance_with_tokio(&self, by: Duration) {
        let (from, began) = (self.weak.time.now(), tokio::time::Instant::now());
        let target = from.saturating_add(narrow(by.as_nanos()));
        loop {
            let passed = narrow(began.elapsed().as_nanos());
            // Done before tokio polls the tasks that it woke, as these would otherwise run at an
            // earlier moment.
            self.advance_to(target.min(from.saturating_add(passed)));
            // Lets tasks of the runtime run that were woken, and tasks that these wake.
            tokio::task::yield_now().await;
            if self.tasks.is_any_ready() {
                continue;
            }
            let now = self.weak.time.now();
            if now >= target {
                return;
            }
            let next = self.weak.time.next().unwrap_or(target).min(target);
            let left = Duration::from_nanos(next.saturating_sub(from));
            // On overflow, the loop repeats a day later.
            let until = began.checked_add(left).unwrap_or_else(|| began + passed_and_a_day(passed));
            tokio::select! {
                biased;
                () = self.tasks.woken() => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    /// Moves time at once, and only then runs everything that was due, like after a pause of the
    /// process or a suspension of the machine. No lock is renewed in between.
    ///
    /// # Panics
    ///
    /// As [`advance`](Self::advance).
    pub fn leap(&self, by: Duration) {
        let _lock = self.tasks.lock.lock();
        self.weak.time.leap(narrow(by.as_nanos()));
        self.tasks.run_ready();
    }

    /// Runs the clock's tasks until all of them wait for something, without moving time.
    ///
    /// # Panics
    ///
    /// As [`advance`](Self::advance).
    pub fn settle(&self) {
        let _lock = self.tasks.lock.lock();
        self.tasks.run_ready();
    }

    /// Sets the wall clock of this view, as the time since the Unix epoch. It continues from there.
    /// Deadlines do not depend on it.
    pub fn set_wall(&self, wall: Duration) {
        let now = self.now().as_nanos();
        *crate::sync::lock(&self.weak.view.wall) = (wall, now);
    }

    /// Creates a view whose wall clock is ahead of this one.
    #[must_use]
    pub fn ahead_by(&self, ahead: Duration) -> Self {
        self.view(self.wall().saturating_add(ahead), self.weak.view.fast_by)
    }

    /// Creates a view whose wall clock is behind this one, and not before the epoch.
    #[must_use]
    pub fn behind_by(&self, behind: Duration) -> Self {
        self.view(self.wall().saturating_sub(behind), self.weak.view.fast_by)
    }

    /// Creates a view whose time and wall clock run faster than the common time by `millionths`, or
    /// slower if negative. The minimum rate is one millionth.
    #[must_use]
    pub fn running_fast_by(&self, millionths: i32) -> Self {
        self.view(self.wall(), millionths)
    }

    fn view(&self, wall: Duration, fast_by: i32) -> Self {
        let common = self.weak.time.now();
        let own = self.weak.view.at(common);
        let view = ClockView { made: (common, own), fast_by, wall: Mutex::new((wall, own)) };
        let weak = WeakClock { view: Arc::new(view), ..self.weak.clone() };
        Self { weak, tasks: Arc::clone(&self.tasks) }
    }

    /// Returns a future that completes when `by` has passed on this view.
    pub fn sleep(&self, by: Duration) -> ManualSleep {
        self.sleep_until(self.now() + by)
    }

    /// Returns a future that completes when this view shows `at`.
    pub fn sleep_until(&self, at: Timestamp) -> ManualSleep {
        self.weak.sleep_until(at)
    }

    /// Runs a future as a task of the clock: it is polled only by the thread that moves or
    /// [settles](Self::settle) the clock, and in the runtime of that thread, if any.
    pub fn spawn<F>(&self, future: F) -> Task<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.tasks.spawn(future)
    }

    /// Returns a spawner for a manager over nodes of this process: its timers become tasks of the
    /// clock, in place of a thread. Not for servers, as connections need a runtime that polls them.
    pub fn spawner(&self) -> ManualSpawner {
        ManualSpawner::new(Arc::downgrade(&self.tasks))
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl WeakClock {
    pub(super) fn sleep_until(&self, at: Timestamp) -> ManualSleep {
        ManualSleep::new(Arc::clone(&self.time), self.view.common_at(at.as_nanos()))
    }

    /// Runs a future as a task of the clock; drops it if the clock's tasks have been dropped.
    pub(super) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        if let Some(tasks) = self.tasks.upgrade() {
            drop(tasks.spawn(future));
        }
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.weak.now()
    }

    fn wall(&self) -> Duration {
        self.weak.wall()
    }

    fn wait(&self, until: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.weak.wait(until)
    }

    fn into_kept(self) -> Arc<dyn Clock> {
        Arc::new(self.weak)
    }

    fn granularity(&self) -> Duration {
        self.weak.granularity()
    }
}

impl Clock for WeakClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.view.at(self.time.now()))
    }

    fn wall(&self) -> Duration {
        self.view.wall(self.now().as_nanos())
    }

    fn wait(&self, until: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.sleep_until(until))
    }

    /// Zero: waits end exactly on time.
    fn granularity(&self) -> Duration {
        Duration::ZERO
    }
}

//! A process whose own wall clock is wrong.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tower_redlock::time::{Clock, SystemClock, Timestamp};

/// The system's clock, which a test can stop, and whose wall clock it can set.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnClock(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    behind: Duration,
    held: Option<Timestamp>,
    wall_ahead: Duration,
    wall_behind: Duration,
}

impl State {
    fn now(&self) -> Timestamp {
        self.held.unwrap_or_else(|| SystemClock::new().now().saturating_sub(self.behind))
    }
}

impl OwnClock {
    /// Shows the same time until it is resumed.
    pub(super) fn hold(&self) {
        let mut state = self.0.lock().unwrap();
        state.held = Some(state.now());
    }

    /// Continues from where it stopped.
    pub(super) fn go_on(&self) {
        let mut state = self.0.lock().unwrap();
        let held = state.held.take().expect("the clock is stopped");
        state.behind = SystemClock::new().now().saturating_duration_since(held);
    }

    /// Puts the wall clock forward.
    pub(super) fn put_wall_forward(&self, by: Duration) {
        self.set_wall(by, Duration::ZERO);
    }

    /// Puts the wall clock back.
    pub(super) fn put_wall_back(&self, by: Duration) {
        self.set_wall(Duration::ZERO, by);
    }

    /// Corrects the wall clock.
    pub(super) fn put_wall_right(&self) {
        self.set_wall(Duration::ZERO, Duration::ZERO);
    }

    fn set_wall(&self, ahead: Duration, behind: Duration) {
        let mut state = self.0.lock().unwrap();
        (state.wall_ahead, state.wall_behind) = (ahead, behind);
    }
}

impl Clock for OwnClock {
    fn now(&self) -> Timestamp {
        self.0.lock().unwrap().now()
    }

    fn wall(&self) -> Duration {
        let state = self.0.lock().unwrap();
        (SystemClock::new().wall() + state.wall_ahead).saturating_sub(state.wall_behind)
    }
}

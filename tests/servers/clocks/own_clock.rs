use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tower_redlock::time::{Clock, SystemClock, Timestamp};

/// The system's clock, unless it is held still or its wall clock is put forward.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnClock(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    behind: Duration,
    held: Option<Timestamp>,
    wall_ahead: Duration,
}

impl State {
    fn now(&self) -> Timestamp {
        self.held.unwrap_or_else(|| SystemClock::new().now().minus(self.behind))
    }
}

impl OwnClock {
    /// It shows the same time until it goes on.
    pub(super) fn hold(&self) {
        let mut state = self.0.lock().unwrap();
        state.held = Some(state.now());
    }

    /// It goes on from where it stood.
    pub(super) fn go_on(&self) {
        let mut state = self.0.lock().unwrap();
        let held = state.held.take().expect("it is held");
        state.behind = SystemClock::new().now().since(held);
    }

    /// From now on the wall clock is ahead.
    pub(super) fn put_wall_forward(&self, by: Duration) {
        self.0.lock().unwrap().wall_ahead = by;
    }
}

impl Clock for OwnClock {
    fn now(&self) -> Timestamp {
        self.0.lock().unwrap().now()
    }

    fn wall(&self) -> Duration {
        SystemClock::new().wall() + self.0.lock().unwrap().wall_ahead
    }
}

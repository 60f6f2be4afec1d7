use std::{
    sync::{Arc, atomic::Ordering},
    task::Waker,
};

use super::active::{ActiveLease, State};
use crate::{
    lock::stall::StallWatch,
    quorum::{Event, Halt},
    time::Timestamp,
};

/// What the holder says, and what is said of it.
impl ActiveLease {
    /// Tells whoever waits for [`Stopping`](crate::lock::Stopping) that the work is to come to an
    /// end. The lock stays valid, and is renewed.
    #[cfg(feature = "scheduler")]
    pub(crate) fn ask_to_stop(&self) {
        let mut wakers = Vec::new();
        {
            let mut state = self.state();
            self.asked_to_stop.store(true, Ordering::Relaxed);
            state.watchers.take(&mut wakers);
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Whether that was said.
    #[cfg(feature = "scheduler")]
    pub(crate) fn is_asked_to_stop(&self) -> bool {
        self.asked_to_stop.load(Ordering::Relaxed)
    }

    /// The work lives.
    #[cfg(feature = "scheduler")]
    pub(crate) fn heartbeat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// How often the work has said so.
    pub(crate) fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// Once the lease is over: wakes who wants to know of renewals, and ends the looks.
    pub(super) fn end_looks(&self, state: &mut State, wakers: &mut Vec<Waker>) {
        if !state.is_over() {
            return;
        }
        state.renewal_watchers.take(wakers);
        if let Some(key) = state.stall_timer.take() {
            self.core.timers.remove(key);
        }
    }

    /// From now on nothing is renewed. False where the lease is over already.
    pub(crate) fn halt(self: &Arc<Self>, why: Halt) -> bool {
        self.handle(Event::Halt(why));
        !self.state().is_over()
    }

    /// Lets a watch look at `at`, unless the lease is over.
    pub(crate) fn watch_stall(&self, watch: Arc<StallWatch>, at: Timestamp) {
        let mut state = self.state();
        if !state.is_over() {
            state.stall_timer = Some(self.core.timers.insert(at, Waker::from(watch)));
        }
    }
}

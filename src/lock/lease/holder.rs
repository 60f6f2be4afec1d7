use std::{
    sync::{Arc, atomic::Ordering},
    task::Waker,
};

use super::active::ActiveLease;
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
            let Some(mut state) = self.state() else { return };
            self.asked_to_stop.store(true, Ordering::Relaxed);
            state.grant.watchers.take(&mut wakers);
        }
        crate::sync::wake_all(wakers);
    }

    /// Whether that was said.
    #[cfg(feature = "scheduler")]
    pub(crate) fn is_asked_to_stop(&self) -> bool {
        self.asked_to_stop.load(Ordering::Relaxed)
    }

    /// The work lives.
    pub(crate) fn heartbeat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether heartbeats are expected: not between attempts, nor after the work has ended.
    #[cfg(feature = "scheduler")]
    pub(crate) fn set_resting(&self, is_resting: bool) {
        self.is_resting.store(is_resting, Ordering::Relaxed);
    }

    /// Whether the work blocks a thread, and polls are not expected.
    #[cfg(feature = "scheduler")]
    pub(crate) fn set_blocks(&self, blocks: bool) {
        self.blocks.store(blocks, Ordering::Relaxed);
    }

    /// Whether no polls are expected.
    pub(crate) fn blocks(&self) -> bool {
        self.blocks.load(Ordering::Relaxed)
    }

    /// Whether no heartbeats are expected.
    pub(crate) fn is_resting(&self) -> bool {
        self.is_resting.load(Ordering::Relaxed)
    }

    /// How often the work has said so.
    pub(crate) fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// From now on nothing is renewed. False where the lease is over already.
    pub(crate) fn halt(&self, why: Halt) -> bool {
        self.handle(Event::Halt(why));
        self.state().is_some_and(|state| !state.grant.is_over())
    }

    /// Lets a watch look at `at`, unless the lease is over.
    pub(crate) fn watch_stall(&self, watch: Arc<StallWatch>, at: Timestamp) {
        let Some(mut state) = self.state() else { return };
        if state.grant.is_over() {
            return;
        }
        let (key, nudge) = self.timers().insert_locked(at, Waker::from(watch));
        state.grant.stall_timer = Some(key);
        drop(state);
        self.timers().nudge(nudge);
    }
}

//! Waiting for one of the runs that may go at once.

use std::{pin::pin, sync::Arc};

use super::{
    JobState, MissReason,
    driver::{Driver, Purpose},
    policy::{Due, due},
};
use crate::schedule::WallTime;

impl Driver {
    /// Waits for a slot, first come first served, before the lock is asked for: a tick that waits
    /// here can be run by another replica. False where the run is not wanted any more.
    pub(super) async fn take_slot(&mut self, purpose: Purpose) -> bool {
        let Some(slots) = self.shared.slots.clone().filter(|_| purpose != Purpose::Register) else {
            return true;
        };
        if let Ok(slot) = Arc::clone(&slots).try_acquire_owned() {
            self.slot = Some(slot);
            return true;
        }
        self.job.set_state(JobState::WaitingForSlot);
        self.obstacle = Some(MissReason::NoSlot);
        let mut slot = pin!(slots.acquire_owned());
        loop {
            if !self.may_start(purpose) || !self.is_still_due(purpose) {
                return false;
            }
            let alarm = self.shared.alarms.at(self.recheck_at(purpose));
            tokio::select! {
                biased;
                slot = &mut slot => {
                    self.slot = slot.ok();
                    return self.may_start(purpose) && self.is_still_due(purpose);
                }
                () = alarm => {}
                // It may have been paused.
                () = self.job.asked.notified() => {}
                _ = self.control.changed() => {}
            }
        }
    }

    fn due_now(&self) -> Due {
        let policy = &self.options.policy;
        due(&self.schedule, &self.job.name, policy, &self.record, self.shared.now())
    }

    fn is_still_due(&self, purpose: Purpose) -> bool {
        !matches!(purpose, Purpose::Tick(_)) || matches!(self.due_now(), Due::Run { .. })
    }

    /// When the tick that is due may be so no more.
    fn recheck_at(&self, purpose: Purpose) -> Option<WallTime> {
        let (Purpose::Tick(_), Due::Run { start, .. }) = (purpose, self.due_now()) else {
            return None;
        };
        let now = self.shared.now();
        let policy = &self.options.policy;
        let after = |limit: std::time::Duration| {
            let start = std::time::Duration::from_millis(start.as_millis());
            let end = WallTime::since_epoch(start.saturating_add(limit));
            WallTime::from_millis(end.as_millis().saturating_add(1))
        };
        [policy.start_within, policy.catch_up].map(after).into_iter().filter(|at| *at > now).min()
    }
}

//! The control of the fleet, as a job's task follows it: pauses, and requested runs.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use super::{
    JobPause, MissReason,
    driver::Driver,
    fleet::{controls, take_request},
    policy::next_overlap,
    shared::SchedulerShared,
    trigger::Trigger,
};
use crate::{
    error::{LockError, ServerText},
    random,
    schedule::WallTime,
};

/// Interval between two reads of the control of all jobs, on each replica, without its jitter of a
/// quarter. A requested run starts within it.
pub(super) const CONTROL_INTERVAL: Duration = Duration::from_secs(4);
/// Pause before a replica asks again for the lock of a requested run.
const ASK_AGAIN: RangeInclusive<Duration> = Duration::from_secs(3)..=Duration::from_secs(5);

impl Driver {
    /// Whether it is time to ask for the lock for a run that was requested of the fleet. Another replica
    /// may have it, or a run is in progress: the next time is after a pause.
    pub(super) fn is_requested(&mut self) -> bool {
        if !self.job.has_requests() {
            self.requested_at = None;
            return false;
        }
        let now = self.shared.redlock.now();
        let is_due = *self.requested_at.get_or_insert(now) <= now;
        if is_due {
            self.requested_at = Some(now + random::within(&ASK_AGAIN));
        }
        is_due
    }

    /// Waits for the end of a pause. At the start of each tick, reads whether it was resumed meanwhile.
    pub(super) async fn wait_while_paused(&mut self, pause: JobPause, now: WallTime) {
        let is_tick = self.check_pause_at.take_if(|at| *at <= now).is_some();
        if is_tick && !self.job.is_paused_here() && self.read_control().await.is_ok() {
            let now = self.shared.now();
            if !self.job.is_paused(now) {
                return;
            }
        }
        self.obstacle = Some(MissReason::Paused { by: pause.by });
        self.job.set_next(None);
        let until = pause.until.map(WallTime::from);
        let floor = self.record.tick.unwrap_or(self.record.base);
        // A tick that counts from the last end may be late by the interval of the reads of all jobs.
        let next = (!self.schedule.is_after_end())
            .then(|| next_overlap(&self.schedule, &self.job.name, floor, now))
            .flatten();
        self.check_pause_at = next.map(|(_, start)| start);
        let wake_at = [self.check_pause_at, until].into_iter().flatten().min();
        self.idle(wake_at, self.register_at).await;
    }

    async fn read_control(&self) -> Result<(), LockError> {
        let job = std::slice::from_ref(&self.job.name);
        let control = controls(&self.shared.redlock, job).await?.pop();
        self.job.note_control(control.unwrap_or_default());
        Ok(())
    }

    /// Takes a requested run over, under the job's lock: no other replica starts it. Returns false if
    /// there is none any more, or if the nodes do not allow it.
    pub(super) async fn take_over_request(&mut self) -> bool {
        if !self.job.has_requests() {
            return false;
        }
        let now = self.shared.now();
        match take_request(&self.shared.redlock, &self.job.name, now).await {
            Ok((control, taken)) => {
                self.job.note_control(control);
                let Some(request) = taken else { return false };
                crate::log::info!(
                    job = %self.job.name,
                    trigger = request.id,
                    by = %ServerText(&request.by),
                    why = %ServerText(request.why.as_deref().unwrap_or_default()),
                    "a requested run starts here"
                );
                self.job.begin_trigger(request.id);
                self.asked = Some(Trigger::of_fleet(request.id));
                true
            }
            Err(error) => {
                crate::log::warn!(
                    job = %self.job.name,
                    %error,
                    "a requested run could not be taken over: it is tried again, unless the nodes have \
                     removed it nevertheless"
                );
                false
            }
        }
    }
}

/// Reads the control of all jobs again and again, until it is dropped: one query for each 500 jobs.
pub(super) async fn watch_controls(shared: &SchedulerShared) {
    loop {
        shared.sleep(random::within(&(CONTROL_INTERVAL..=CONTROL_INTERVAL * 5 / 4))).await;
        read_controls(shared).await;
    }
}

pub(super) async fn read_controls(shared: &SchedulerShared) {
    let jobs = shared.jobs();
    let names: Vec<_> = jobs.iter().map(|job| Arc::clone(&job.name)).collect();
    match controls(&shared.redlock, &names).await {
        Ok(controls) => {
            for (job, control) in jobs.iter().zip(controls) {
                job.note_control(control);
            }
        }
        // Before a tick, it is read under the job's lock.
        Err(error) => crate::log::debug!(%error, "the control of jobs was not read"),
    }
}

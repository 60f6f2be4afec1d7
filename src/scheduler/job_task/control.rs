//! The control of the fleet, as a job's task follows it: pauses, and requested runs.

use super::{
    super::{
        JobPause, MissReason,
        fleet::{controls, take_request},
    },
    task::JobTask,
};
use crate::{
    error::{LockError, ServerText},
    schedule::WallTime,
};

impl JobTask {
    /// Waits for the end of a pause. At the start of each tick, reads whether it was resumed meanwhile.
    pub(super) async fn wait_while_paused(&mut self, pause: JobPause, now: WallTime) {
        let is_tick = self.waits.check_pause_at.take_if(|at| *at <= now).is_some();
        if is_tick && !self.env.job.is_paused_here() && self.read_control().await.is_ok() {
            let now = self.env.now();
            if self.env.job.pause_at(now).is_none() {
                return;
            }
        }
        self.reports.obstacle = Some(MissReason::Paused { by: pause.by });
        self.env.job.set_next(None);
        let until = pause.until.map(WallTime::from);
        let floor = self.fleet.record.tick.unwrap_or(self.fleet.record.base);
        // A tick that counts from the last end may be late by the interval of the reads of all jobs.
        let next = (!self.env.schedule.is_after_end())
            .then(|| self.env.next_overlap(floor, now))
            .flatten();
        self.waits.check_pause_at = next.map(|(_, start)| start);
        let wake_at = [self.waits.check_pause_at, until].into_iter().flatten().min();
        self.idle(wake_at, self.fleet.settle_at).await;
    }

    async fn read_control(&self) -> Result<(), LockError> {
        let job = std::slice::from_ref(&self.env.job.name);
        let control = controls(&self.env.redlock, job).await?.pop();
        self.env.job.note_control(control.unwrap_or_default());
        Ok(())
    }

    /// Takes a requested run over, under the job's lock: no other replica starts it. Returns false if
    /// there is none any more, or if the nodes do not allow it.
    pub(super) async fn take_over_request(&mut self) -> bool {
        let job = &self.env.job;
        if !job.has_requests() {
            return false;
        }
        match take_request(&self.env.redlock, &job.name, self.env.now()).await {
            Ok((control, taken)) => {
                job.note_control(control);
                let Some(request) = taken else { return false };
                crate::log::info!(
                    job = %job.name,
                    trigger = request.id,
                    by = %ServerText(&request.by),
                    why = %ServerText(request.why.as_deref().unwrap_or_default()),
                    "a requested run starts here"
                );
                job.begin_request(request.id);
                true
            }
            Err(error) => {
                crate::log::warn!(
                    job = %job.name,
                    %error,
                    "a requested run could not be taken over: it is tried again, unless the nodes have \
                     removed it nevertheless"
                );
                false
            }
        }
    }
}

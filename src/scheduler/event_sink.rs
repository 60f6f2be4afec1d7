//! Sends the events of jobs to the receivers and the callback of the application.

use std::{sync::Arc, time::Duration};

use tokio::sync::broadcast;

use super::{
    JobConflict, JobEvent, JobEventKind, context::RunInfo, outcome_hook::OutcomeHook,
    shared_job::SharedJob, wall_timer::WallTimer,
};
use crate::{error::ServerText, lock::Redlock, metrics, schedule::WallTime};

/// Sends the events of a scheduler's jobs.
pub(super) struct EventSink {
    pub(super) receivers: broadcast::Sender<JobEvent>,
    pub(super) outcome_hook: Option<Arc<OutcomeHook>>,
    pub(super) wall_timer: Arc<WallTimer>,
}

impl EventSink {
    /// Sends an event of a tick, or of the current trigger.
    pub(super) fn emit(&self, job: &SharedJob, tick: WallTime, kind: JobEventKind) {
        // Ticks may come during a triggered run.
        let trigger = job.trigger().filter(|_| !kind.concerns_ticks());
        self.emit_for(job, tick, trigger, kind);
    }

    /// Sends an event that belongs to the given trigger, if any.
    pub(super) fn emit_for(
        &self,
        job: &SharedJob,
        tick: WallTime,
        trigger: Option<u64>,
        kind: JobEventKind,
    ) {
        self.send(job, tick, trigger, job.lateness(), kind);
    }

    /// Sends an event of a run.
    pub(super) fn emit_of_run(&self, job: &SharedJob, run: &RunInfo, kind: JobEventKind) {
        self.send(job, run.tick, run.trigger, run.lateness, kind);
    }

    fn send(
        &self,
        job: &SharedJob,
        tick: WallTime,
        trigger: Option<u64>,
        lateness: Duration,
        kind: JobEventKind,
    ) {
        crate::log::debug!(job = %job.name, %tick, trigger, event = ?kind, "job");
        let (job, at) = (Arc::clone(&job.name), self.wall_timer.now().into());
        let event = JobEvent { job, tick, trigger, at, kind };
        if let Some(hook) = &self.outcome_hook {
            hook.note(&event, lateness);
        }
        // There may be no receiver.
        let _ = self.receivers.send(event);
    }

    /// Reports a conflict, unless it was reported within the last hour.
    pub(super) fn report_conflict(
        &self,
        redlock: &Redlock,
        job: &SharedJob,
        conflict: JobConflict,
    ) {
        if !job.note_conflict(&conflict, redlock.now()) {
            return;
        }
        crate::log::warn!(
            job = %job.name,
            by = %redlock.owner(),
            other = %ServerText(conflict.by()),
            "{conflict}"
        );
        metrics::job_conflict(&job.name, conflict.name());
        self.emit_for(job, self.wall_timer.now(), None, JobEventKind::Conflict(conflict));
    }
}

//! What a job does after a panic outside of its work, and what it tells whoever asked for a run.

use std::{sync::Arc, time::Duration};

use super::{
    JobEventKind, JobState, MissReason, Outcome, SkipReason,
    attempts::backoff,
    driver::{Driver, Purpose},
    jobs::Phase,
};
use crate::schedule::WallTime;

/// First pause after a panic, doubled with each one in a row.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

impl Driver {
    /// After a panic outside of the work: what it left is put in order, and the job goes on after a
    /// pause.
    pub(super) async fn recover(&mut self, message: &Arc<str>) {
        self.slot = None;
        if let Some(running) = self.job.running() {
            let outcome = Outcome::Panicked { message: Arc::clone(message) };
            let now = self.shared.now();
            let tick = WallTime::from(running.tick);
            let took = now.as_millis().saturating_sub(WallTime::from(running.since).as_millis());
            let took = Duration::from_millis(took);
            self.job.ended(&outcome, took, now);
            self.shared.emit(&self.job, tick, JobEventKind::of(&outcome, took));
            self.answer(Ok(outcome));
        }
        self.answer_unless_done(Some(message));
        let pause = backoff(FIRST_PAUSE, self.panics);
        self.panics = self.panics.saturating_add(1);
        crate::log::warn!(
            job = %self.job.name,
            panic = %message,
            ?pause,
            "the job's schedule, or a subscriber, panicked: the job goes on after a pause"
        );
        self.obstacle = Some(MissReason::BackingOff);
        let reason = format!("a panic outside of the work: {message}").into();
        self.job.set_state(JobState::BackingOff { reason });
        tokio::select! {
            biased;
            () = self.shared.sleep(pause) => {}
            _ = self.control.wait_for(|control| control.phase > Phase::Running) => {}
        }
    }

    /// Tells whoever asked for the run how it came out.
    pub(super) fn answer(&mut self, end: Result<Outcome, SkipReason>) {
        if let Some(asked) = self.asked.take() {
            self.job.trigger_is_over(matches!(end, Err(SkipReason::Ended)));
            asked.answer(end);
        }
    }

    pub(super) fn answer_unless_done(&mut self, panic: Option<&Arc<str>>) {
        if self.asked.is_none() {
            return;
        }
        let control = self.shared.control();
        let reason = match panic {
            _ if self.is_closed || control.phase > Phase::Running => SkipReason::Ended,
            Some(panic) => SkipReason::Unavailable { error: Arc::clone(panic) },
            None if !control.leads => SkipReason::NotLeading,
            None => {
                SkipReason::Unavailable { error: "the lock ended before the work began".into() }
            }
        };
        self.tell_skipped(Purpose::Trigger, reason);
    }
}

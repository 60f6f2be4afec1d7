//! A run whose work is under way: how it is polled and stopped, and the ticks that come during it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
};

use tracing::Span;

use super::{
    super::{
        JobEventKind, JobStop, Outcome, Overlap, SkipReason, context::RunInfo, event,
        status::RunKey, work::panic_message,
    },
    attempts::AttemptsFuture,
    blocking::BlockingRun,
    end::StopCause,
    env::JobEnv,
};
use crate::{
    error::{LockError, ServerText},
    guard::{Guarded, Hold, LockContext},
    metrics,
    schedule::WallTime,
    time::Timestamp,
};

/// Work that is polled here or on a thread.
pub(super) enum PolledRun {
    Here(Pin<Box<Guarded<AttemptsFuture>>>),
    Thread(BlockingRun),
}

pub(super) type WorkResult = Result<(Outcome, Option<Hold>), LockError>;

impl PolledRun {
    pub(super) async fn end(&mut self) -> WorkResult {
        match self {
            Self::Here(guarded) => {
                guarded.as_mut().await.map(|(outcome, hold)| (outcome, Some(hold)))
            }
            Self::Thread(thread) => thread.end().await,
        }
    }

    /// Drops the work; on a thread, between two attempts.
    pub(super) fn stop(&mut self) -> Option<Hold> {
        match self {
            Self::Here(guarded) => guarded.as_mut().stop(),
            Self::Thread(thread) => {
                thread.cancel();
                None
            }
        }
    }
}

/// A run whose work is under way.
pub(super) struct CurrentRun {
    pub(super) info: Arc<RunInfo>,
    /// The token of the claim, for a run beside others, which has a lock of its own.
    pub(super) claimed_by: Option<u64>,
    pub(super) context: LockContext,
    pub(super) span: Span,
    pub(super) polled: PolledRun,
    pub(super) stop: Option<RunStop>,
    /// The next tick that comes during the run, and its start; none for a run beside others.
    pub(super) overlap: Option<(WallTime, WallTime)>,
    /// Whether such a tick was skipped.
    pub(super) has_overlapped: bool,
}

/// A stop of a run that neither a shutdown nor its lock ends.
pub(super) struct RunStop {
    pub(super) cause: StopCause,
    /// When the work is dropped.
    pub(super) drop_at: Timestamp,
}

impl CurrentRun {
    pub(super) fn key(&self) -> RunKey {
        (self.context.slot(), self.context.fencing_token())
    }

    /// Asks the work to stop; it is dropped after the grace of the first such request. A command counts more
    /// than the next tick.
    pub(super) fn stop_for(&mut self, cause: StopCause, drop_at: Timestamp) {
        self.context.ask_to_stop();
        let stop = self.stop.get_or_insert_with(|| RunStop { cause: cause.clone(), drop_at });
        if stop.cause == StopCause::NextTick {
            stop.cause = cause;
        }
        debug_assert!(stop.drop_at <= drop_at, "a later request does not extend the grace");
        debug_assert!(self.context.is_asked_to_stop());
    }

    /// The command that stops the run, if one does.
    pub(super) fn command(&self) -> Option<&JobStop> {
        match &self.stop {
            Some(RunStop { cause: StopCause::Command(stop), .. }) => Some(stop),
            _ => None,
        }
    }

    pub(super) fn is_grace_over(&self, now: Timestamp) -> bool {
        self.stop.as_ref().is_some_and(|stop| now >= stop.drop_at)
    }
}

/// Carries out what the job does about a tick that comes during its only run.
pub(super) fn on_overlap(env: &JobEnv, run: &mut CurrentRun) {
    let Some((tick, start)) = run.overlap else { return };
    match env.options.policy.overlap {
        // The tick will not run, so the run continues.
        Overlap::Stop if env.job.pause_at(env.now()).is_some() => {}
        Overlap::Stop => {
            let drop_at = env.redlock.now() + env.options.stop_grace;
            run.stop_for(StopCause::NextTick, drop_at);
        }
        overlap => {
            if overlap == Overlap::Skip {
                run.has_overlapped = true;
                env.job.count(|counts| counts.skipped += 1);
                metrics::job_skipped(&env.job.name, event::label(&SkipReason::Overlap));
            }
            env.emit(tick, JobEventKind::Skipped(SkipReason::Overlap));
        }
    }
    run.overlap = overlap_after(env, tick, start);
}

/// The next tick during a run, and its start; `None` if the schedule panics, which must not end the run.
pub(super) fn overlap_after(
    env: &JobEnv,
    tick: WallTime,
    seen: WallTime,
) -> Option<(WallTime, WallTime)> {
    let next = || env.next_overlap(tick, seen);
    catch_unwind(AssertUnwindSafe(next)).unwrap_or_else(|panic| {
        crate::log::warn!(
            job = %env.job.name,
            panic = %panic_message(&*panic),
            "the schedule panicked: ticks that come during this run are not seen"
        );
        None
    })
}

/// Asks the work to stop if a command for the fleet requests that.
pub(super) fn follow_stop_command(env: &JobEnv, run: &mut CurrentRun) {
    if run.command().is_some() {
        return;
    }
    let token = run.context.fencing_token().get();
    let Some(stop) = env.job.stop_of(token, run.claimed_by) else { return };
    crate::log::info!(
        job = %env.job.name, token, by = %ServerText(&stop.by),
        why = %ServerText(stop.why.as_deref().unwrap_or_default()),
        "the run is stopped on request"
    );
    let drop_at = env.redlock.now() + env.options.stop_grace;
    run.stop_for(StopCause::Command(stop), drop_at);
}

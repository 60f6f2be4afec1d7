//! A callback of the application for how runs and ticks ended.

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::FutureExt as _;
use tokio::sync::watch;

use super::{JobEvent, JobEventKind, work::panic_message};
use crate::{
    callback::{CallbackOutput, Later, later},
    lock::{Inside, Redlock},
    metrics,
    schedule::WallTime,
    sync::Mutex,
};

/// How a run ended, or that a tick did not run: what [`Scheduler::on_outcome`](super::Scheduler::on_outcome)
/// is called with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobOutcome {
    /// The job.
    pub job: Arc<str>,
    /// The tick; of several missed ones, the latest.
    pub tick: WallTime,
    /// The number of the request, for a triggered run.
    pub trigger: Option<u64>,
    /// The time of the event, by this replica's wall clock.
    pub at: SystemTime,
    /// Delay of the run's start after its scheduled time; zero for a tick that did not run.
    pub lateness: Duration,
    /// What happened: a run was finished, failed, panicked, lost, timed out, stopped or not done; or ticks
    /// were missed, given up or interrupted.
    pub kind: JobEventKind,
}

impl JobOutcome {
    /// Whether a person should know: the run failed, panicked, lost its lock or took longer than
    /// [`max_run`](super::Job::max_run); or ticks were missed, given up or interrupted. Ticks that are missed
    /// as the job is paused are none of these.
    pub const fn is_failure(&self) -> bool {
        match &self.kind {
            JobEventKind::Missed { why, .. } => !matches!(why, super::MissReason::Paused { .. }),
            JobEventKind::Failed { .. }
            | JobEventKind::Panicked { .. }
            | JobEventKind::Lost { .. }
            | JobEventKind::TimedOut { .. }
            | JobEventKind::GivenUp { .. }
            | JobEventKind::Interrupted { .. } => true,
            _ => false,
        }
    }
}

/// For example `report, tick 2026-03-01T03:00:00Z: failed after 1.2s: no disk`.
impl fmt::Display for JobOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, tick {}: {}", self.job, self.tick, self.kind)?;
        match self.lateness {
            late if late >= Duration::from_secs(1) => write!(f, " (started {late:.1?} late)"),
            _ => Ok(()),
        }
    }
}

/// Maximum number of outcomes that wait for the callback. Beyond it, outcomes other than failures are dropped first,
/// and of these the oldest.
const MAX_QUEUED: usize = 1_024;
/// Timeout of one call.
const TIMEOUT: Duration = Duration::from_secs(30);

type Callback = dyn Fn(JobOutcome) -> Option<Later> + Send + Sync;

/// The callback, and the outcomes that wait for it.
pub(super) struct OutcomeHook {
    callback: Box<Callback>,
    waiting: Mutex<WaitingOutcomes>,
    /// Number of outcomes that wait or are being reported.
    open: watch::Sender<usize>,
}

/// The outcomes that wait for the callback.
#[derive(Default)]
struct WaitingOutcomes {
    /// The oldest first.
    queue: VecDeque<JobOutcome>,
    /// What was dropped since the last report of that.
    dropped: DroppedOutcomes,
}

/// Numbers of outcomes that are not reported to the callback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DroppedOutcomes {
    count: u64,
    /// Failures among them.
    failures: u64,
}

impl WaitingOutcomes {
    /// Adds an outcome. Returns false if another one, or this one, is dropped for it.
    fn push(&mut self, outcome: JobOutcome) -> bool {
        self.queue.push_back(outcome);
        if self.queue.len() <= MAX_QUEUED {
            return true;
        }
        let least = self.queue.iter().position(|outcome| !outcome.is_failure()).unwrap_or(0);
        let dropped = self.queue.remove(least);
        let is_failure = dropped.is_some_and(|outcome| outcome.is_failure());
        self.dropped.count += 1;
        self.dropped.failures += u64::from(is_failure);
        debug_assert_eq!(self.queue.len(), MAX_QUEUED);
        false
    }
}

impl OutcomeHook {
    pub(super) fn new<F, R, Kind>(callback: F) -> Self
    where
        F: Fn(JobOutcome) -> R + Send + Sync + 'static,
        R: CallbackOutput<Kind>,
    {
        let callback = Box::new(move |outcome| later(callback(outcome)));
        Self { callback, waiting: Mutex::default(), open: watch::Sender::default() }
    }

    /// Queues the outcome that an event tells, if it tells one.
    pub(super) fn note(&self, event: &JobEvent, lateness: Duration) {
        let JobEvent { job, tick, trigger, at, kind } = event.clone();
        let lateness = match kind {
            JobEventKind::Missed { .. }
            | JobEventKind::GivenUp { .. }
            | JobEventKind::Interrupted { .. } => Duration::ZERO,
            JobEventKind::Finished { .. }
            | JobEventKind::Failed { .. }
            | JobEventKind::Panicked { .. }
            | JobEventKind::Lost { .. }
            | JobEventKind::TimedOut { .. }
            | JobEventKind::Stopped { .. }
            | JobEventKind::NotDone { .. } => lateness,
            _ => return,
        };
        let outcome = JobOutcome { job, tick, trigger, at, lateness, kind };
        let is_kept = crate::sync::lock(&self.waiting).push(outcome);
        if is_kept {
            self.open.send_modify(|open| *open += 1);
        } else {
            metrics::job_outcome_dropped();
        }
    }

    /// Reports what was dropped since the last call.
    fn report_dropped(&self) {
        let dropped = std::mem::take(&mut crate::sync::lock(&self.waiting).dropped);
        if dropped.count > 0 {
            crate::log::warn!(
                dropped = dropped.count,
                failures = dropped.failures,
                "the callback of on_outcome is too slow: outcomes are not reported to it"
            );
        }
    }

    /// Calls the callback for one outcome after the other, until `ended` completes.
    pub(super) async fn run(self: &Arc<Self>, redlock: &Redlock, ended: impl Future<Output = ()>) {
        let (mut ended, mut open) = (pin!(ended), self.open.subscribe());
        loop {
            tokio::select! {
                biased;
                // The sender is `self`.
                _ = open.wait_for(|open| *open > 0) => {}
                () = &mut ended => return,
            }
            self.report_dropped();
            let next = crate::sync::lock(&self.waiting).queue.pop_front();
            debug_assert!(next.is_some(), "an open outcome waits while none is being reported");
            if let Some(outcome) = next {
                self.call(redlock, outcome).await;
            }
            self.open.send_modify(|open| {
                debug_assert!(*open > 0 && *open <= MAX_QUEUED + 1, "{open} open outcomes");
                *open -= 1;
            });
        }
    }

    async fn call(self: &Arc<Self>, redlock: &Redlock, outcome: JobOutcome) {
        let (job, tick, name) = (Arc::clone(&outcome.job), outcome.tick, outcome.kind.name());
        let call = Inside::new(self, async {
            if let Some(later) = (self.callback)(outcome) {
                later.await;
            }
        });
        // Also panics of the drop of a call that takes too long.
        let call = AssertUnwindSafe(async move {
            tokio::select! {
                biased;
                () = call => true,
                () = redlock.sleep(TIMEOUT) => false,
            }
        });
        let failure = match call.catch_unwind().await {
            Ok(true) => return,
            Ok(false) => format!("it took longer than {TIMEOUT:?}").into(),
            Err(panic) => panic_message(&*panic),
        };
        crate::log::warn!(
            %job, %tick, outcome = name, error = %failure, "the callback of on_outcome failed"
        );
    }

    /// Waits until all outcomes are reported, at most for `grace`.
    pub(super) async fn drain(&self, redlock: &Redlock, grace: Duration) {
        let mut open = self.open.subscribe();
        tokio::select! {
            biased;
            // The sender is `self`.
            _ = open.wait_for(|open| *open == 0) => {}
            () = redlock.sleep(grace) => crate::log::warn!(
                outcomes = *self.open.borrow(),
                "the scheduler is shut down before the callback of on_outcome has returned"
            ),
        }
        self.report_dropped();
    }
}

//! What the tasks and handles of a scheduler share.

use std::{
    future::{Future, pending},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use tokio::sync::{Semaphore, broadcast, watch};

use super::{
    JobEvent, JobEventKind, outcome_hook::OutcomeHook, shared_job::SharedJob, wall_timer::WallTimer,
};
use crate::{
    guard::LockContext,
    leader::Leader,
    lock::{Redlock, Spawner, claims},
    random,
    schedule::WallTime,
    sync::{
        Mutex, Notify,
        atomic::{AtomicU64, Ordering},
    },
    time::Sleep,
};

/// Phase of a scheduler's shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Running,
    /// No new runs; current ones get a stop request.
    Stopping,
    /// Runs are dropped.
    Stopped,
    /// No more waiting: only blocking work is left.
    Left,
}

/// Control signals for all jobs of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Control {
    pub(super) phase: Phase,
    /// Whether this replica may run jobs: false only if the scheduler has a leader elsewhere.
    pub(super) leads: bool,
}

pub(super) struct SchedulerShared {
    pub(super) redlock: Redlock,
    pub(super) leader: Option<Leader>,
    pub(super) wall_timer: Arc<WallTimer>,
    pub(super) spawner: Arc<dyn Spawner>,
    /// Runtime context of blocking jobs.
    pub(super) runtime: Option<tokio::runtime::Handle>,
    pub(super) control: watch::Sender<Control>,
    pub(super) events: broadcast::Sender<JobEvent>,
    /// In the order in which they were added.
    pub(super) jobs: Mutex<Vec<Arc<SharedJob>>>,
    /// Number of job tasks that have not ended.
    pub(super) alive: watch::Sender<usize>,
    /// Limits concurrent runs.
    pub(super) slots: Option<Arc<Semaphore>>,
    pub(super) outcome_hook: Option<Arc<OutcomeHook>>,
    /// See [`Scheduler::forget_unused_after`](super::Scheduler::forget_unused_after).
    pub(super) forget_unused_after: Duration,
    /// Notified when the servers keep as many jobs as they may.
    pub(super) is_full: Notify,
    /// Number of triggered runs.
    pub(super) triggers: AtomicU64,
}

impl SchedulerShared {
    pub(super) fn control(&self) -> Control {
        *self.control.borrow()
    }

    pub(super) fn jobs(&self) -> Vec<Arc<SharedJob>> {
        crate::sync::lock(&self.jobs).clone()
    }

    /// Waits until no job is left, and none can be added any more.
    pub(super) async fn ended(&self) {
        let (mut alive, mut control) = (self.alive.subscribe(), self.control.subscribe());
        loop {
            let is_empty = *alive.borrow_and_update() == 0;
            let is_over = control.borrow_and_update().phase > Phase::Running;
            if is_empty && (is_over || self.redlock.is_closed()) {
                return;
            }
            // Nothing tells that the manager was shut down.
            let look =
                async { if is_empty { self.sleep(FIRST_PAUSE).await } else { pending().await } };
            tokio::select! {
                biased;
                _ = alive.changed() => {}
                _ = control.changed() => {}
                () = look => {}
            }
        }
    }

    pub(super) fn now(&self) -> WallTime {
        self.wall_timer.now()
    }

    pub(super) fn sleep(&self, time: Duration) -> Sleep {
        self.redlock.sleep(time)
    }

    /// Waits under a lock whose work is over. Records a poll four times within `limit`, so that a
    /// hanging runtime is detected.
    pub(super) async fn keep_polled<T>(
        &self,
        lock: &LockContext,
        limit: Duration,
        wait: impl Future<Output = T>,
    ) -> T {
        let mut wait = pin!(wait);
        loop {
            lock.note_poll();
            tokio::select! {
                biased;
                ended = &mut wait => return ended,
                () = self.sleep(limit / 4) => {}
            }
        }
    }

    pub(super) fn next_trigger(&self) -> u64 {
        self.triggers.fetch_add(1, Ordering::Relaxed) + 1
    }

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
        crate::log::debug!(job = %job.name, %tick, trigger, event = ?kind, "job");
        let (lateness, at) = (job.lateness(), self.now().into());
        let job = Arc::clone(&job.name);
        let event = JobEvent { job, tick, trigger, at, kind };
        if let Some(hook) = &self.outcome_hook {
            hook.note(&event, lateness);
        }
        // There may be no receiver.
        let _ = self.events.send(event);
    }
}

/// Interval between queries about runs last seen on other replicas. Doubles while none of them
/// ends.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// Queries the nodes for the ends of runs on other replicas until it is dropped: one query for each
/// 500 jobs.
pub(super) async fn refresh(shared: &SchedulerShared) {
    let mut pause = FIRST_PAUSE;
    loop {
        shared.sleep(random::within(&(pause..=pause + pause / 4))).await;
        let mut open = shared.jobs();
        open.retain(|job| job.runs_elsewhere());
        let names: Vec<Arc<str>> = open.iter().map(|job| Arc::clone(&job.name)).collect();
        let mut has_news = open.is_empty();
        if !open.is_empty()
            && let Ok(kept) = claims::read(&shared.redlock, &names, &[]).await
        {
            let limit = shared.wall_timer.limit();
            for (job, kept) in open.iter().zip(&kept) {
                has_news |= job.refresh(kept, limit);
            }
        }
        pause = if has_news { FIRST_PAUSE } else { (2 * pause).min(LONGEST_PAUSE) };
    }
}

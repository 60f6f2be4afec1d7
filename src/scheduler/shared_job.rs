//! One job, as its task and the handles see it.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::sync::watch;

use super::{
    FleetRun, Job, JobConflict, JobControl, JobCounts, JobEventKind, JobPause, JobState, JobStatus,
    JobStop, LastRun, Outcome, RunningJob, SkipReason, TriggerError, conflict::ConflictLog,
    pending_trigger::PendingTrigger, status::RunKey,
};
use crate::{
    lock::claims::JobHistory,
    metrics,
    quorum::claims::LatestClaim,
    schedule::WallTime,
    sync::{Guard, Mutex, Notify},
    time::Timestamp,
};

/// State of one job that its task shares with the handles.
pub(super) struct SharedJob {
    pub(super) name: Arc<str>,
    inner: Mutex<SharedJobState>,
    /// Notifies the task of a trigger, a request, a pause or a resume.
    pub(super) changed: Notify,
    /// Changes with the control of the fleet, for runs.
    pub(super) controls: watch::Sender<()>,
}

struct SharedJobState {
    status: JobStatus,
    /// State while nothing runs and the job is not paused.
    state: JobState,
    life: TaskLife,
    retirement: Option<Retirement>,
    /// The current run blocks a thread, and can't be dropped.
    blocks: bool,
    /// Triggers whose runs have not begun.
    triggers: VecDeque<PendingTrigger>,
    /// The trigger that the current run, or attempt at one, is for.
    trigger: Option<PendingTrigger>,
    /// Triggers that the shutdown cancelled.
    cancelled: Vec<u64>,
    conflicts: ConflictLog,
    watched: WatchedRun,
}

/// The locks of a job's runs, and its latest run, whose lock is watched until it is over.
#[derive(Debug, Default)]
struct WatchedRun {
    /// The locks of which a run has one.
    locks: Vec<Arc<str>>,
    ttl: Duration,
    /// The start of a run that has not ended, and was not reported as interrupted.
    open_since: Option<WallTime>,
    /// The lock was found free, and the task does not know it.
    is_lock_over: bool,
}

/// A run on another replica.
pub(super) struct RunElsewhere {
    /// It has one of these locks.
    pub(super) locks: Vec<Arc<str>>,
    pub(super) ttl: Duration,
    since: WallTime,
    /// Its owner, if that is known.
    pub(super) owner: Option<Arc<str>>,
}

impl RunElsewhere {
    /// Whether its lock may be over, if its replica has crashed: that lasts for a TTL at least.
    pub(super) fn may_be_over(&self, now: WallTime) -> bool {
        let since = Duration::from_millis(self.since.as_millis());
        WallTime::since_epoch(since.saturating_add(self.ttl)) <= now
    }
}

/// The life of a job's task.
enum TaskLife {
    Alive,
    /// It starts no more runs, for this reason.
    Ending(Arc<str>),
    Gone(Arc<str>),
}

impl TaskLife {
    fn reason(&self) -> Option<&Arc<str>> {
        match self {
            Self::Alive => None,
            Self::Ending(reason) | Self::Gone(reason) => Some(reason),
        }
    }
}

impl SharedJobState {
    fn pause_at(&self, now: WallTime) -> Option<&JobPause> {
        let JobStatus { paused_here, control, .. } = &self.status;
        paused_here.as_ref().or_else(|| control.pause_at(now))
    }
}

fn fleet_run(latest: &LatestClaim) -> FleetRun {
    let at = |time| SystemTime::from(WallTime::since_epoch(time));
    FleetRun {
        tick: (!latest.run.tick.is_zero()).then(|| at(latest.run.tick)),
        since: at(latest.run.since),
        ended: latest.run.ended.map(at),
        owner: latest.owner.clone(),
    }
}

/// The start of a run that is in progress, or was interrupted and not reported.
fn open_since(latest: &LatestClaim) -> Option<WallTime> {
    let on_demand = latest.fates.on_demand.filter(|run| run.ended.is_none());
    let of_tick = latest.is_open().then_some(latest.run.since);
    of_tick.max(on_demand.map(|run| run.since)).map(WallTime::since_epoch)
}

/// Why the current task of a job ends after the current run.
pub(super) enum Retirement {
    Removed,
    /// Another schedule or work takes its place.
    Replaced(Box<Job>),
}

/// Maximum number of pending triggers.
const MAX_TRIGGERS: usize = 1_000;

impl SharedJob {
    pub(super) fn of(job: &Job) -> Self {
        let name: Arc<str> = job.name.as_str().into();
        let status = JobStatus {
            name: Arc::clone(&name),
            schedule: job.schedule.to_string().into(),
            state: JobState::Starting,
            finding: None,
            next_tick: None,
            paused_here: None,
            control: JobControl::default(),
            running: None,
            running_beside: Vec::new(),
            last: None,
            last_missed: None,
            fleet: None,
            counts: JobCounts::default(),
        };
        let inner = SharedJobState {
            status,
            state: JobState::Starting,
            life: TaskLife::Alive,
            retirement: None,
            blocks: false,
            triggers: VecDeque::new(),
            trigger: None,
            cancelled: Vec::new(),
            conflicts: ConflictLog::default(),
            watched: WatchedRun::default(),
        };
        let controls = watch::Sender::new(());
        Self { name, inner: Mutex::new(inner), changed: Notify::new(), controls }
    }

    fn inner(&self) -> Guard<'_, SharedJobState> {
        crate::sync::lock(&self.inner)
    }

    pub(super) fn status(&self, now: WallTime, at: Timestamp) -> JobStatus {
        let inner = self.inner();
        let mut status = inner.status.clone();
        let conflict = || Some(inner.conflicts.recent(at)?.to_string().into());
        status.finding = status.finding.or_else(conflict);
        status.state = match inner.life.reason() {
            _ if status.running.is_some() => JobState::Running,
            Some(reason) => JobState::Ended { reason: Arc::clone(reason) },
            None => match inner.pause_at(now).cloned() {
                Some(JobPause { by, why, until, .. }) => JobState::Paused { by, why, until },
                None => inner.state.clone(),
            },
        };
        status
    }

    /// Changes the status: not its state, which [`set_state`](Self::set_state) does.
    pub(super) fn update(&self, change: impl FnOnce(&mut JobStatus)) {
        change(&mut self.inner().status);
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut JobCounts)) {
        self.update(|status| count(&mut status.counts));
    }

    pub(super) fn set_state(&self, state: JobState) {
        self.inner().state = state;
    }

    pub(super) fn set_paused_here(&self, pause: Option<JobPause>) {
        self.update(|status| status.paused_here = pause);
        self.changed.notify_one();
    }

    /// The pause that applies at `now`, here or on the whole fleet.
    pub(super) fn pause_at(&self, now: WallTime) -> Option<JobPause> {
        self.inner().pause_at(now).cloned()
    }

    pub(super) fn is_paused_here(&self) -> bool {
        self.inner().status.paused_here.is_some()
    }

    /// Whether a run is requested of any replica.
    pub(super) fn has_requests(&self) -> bool {
        !self.inner().status.control.requested.is_empty()
    }

    /// The request to stop the run with this token, if there is one. `claimed_by`: see
    /// [`JobControl::stop_of`].
    pub(super) fn stop_of(&self, token: u64, claimed_by: Option<u64>) -> Option<JobStop> {
        self.inner().status.control.stop_of(token, claimed_by).cloned()
    }

    /// Records the control of the fleet, as just read. Notifies the task if it has changed.
    pub(super) fn note_control(&self, control: JobControl) {
        let is_new = {
            let known = &mut self.inner().status.control;
            let is_new = *known != control;
            *known = control;
            is_new
        };
        if is_new {
            self.changed.notify_one();
            self.controls.send_modify(|()| {});
        }
    }

    /// Queues a triggered run.
    pub(super) fn queue_trigger(&self, pending: PendingTrigger) -> Result<(), TriggerError> {
        {
            let mut inner = self.inner();
            if let Some(reason) = inner.life.reason() {
                let (job, reason) = (Arc::clone(&self.name), Arc::clone(reason));
                return Err(TriggerError::Ended { job, reason });
            }
            if inner.triggers.len() >= MAX_TRIGGERS {
                let (job, pending) = (Arc::clone(&self.name), inner.triggers.len());
                return Err(TriggerError::TooMany { job, pending });
            }
            inner.triggers.push_back(pending);
        }
        self.changed.notify_one();
        Ok(())
    }

    /// Makes the next trigger the current one. Returns whether there is one.
    pub(super) fn take_trigger(&self) -> bool {
        let mut inner = self.inner();
        assert!(inner.trigger.is_none(), "the current trigger is answered first");
        inner.trigger = inner.triggers.pop_front();
        inner.trigger.is_some()
    }

    /// Makes a run that was requested of the fleet the current trigger.
    pub(super) fn begin_request(&self, id: u64) {
        let former = self.inner().trigger.replace(PendingTrigger::unawaited(id));
        assert!(former.is_none(), "the current trigger is answered first");
    }

    /// Takes the current trigger out, for a run beside others, which answers it.
    pub(super) fn detach_trigger(&self) -> Option<PendingTrigger> {
        self.inner().trigger.take()
    }

    /// The number of the current trigger.
    pub(super) fn trigger(&self) -> Option<u64> {
        self.inner().trigger.as_ref().map(|pending| pending.id)
    }

    /// Answers the current trigger, if there is one.
    pub(super) fn answer(&self, end: Result<Outcome, SkipReason>) {
        let pending = {
            let mut inner = self.inner();
            let pending = inner.trigger.take();
            let is_cancelled = end == Err(SkipReason::Ended);
            inner.cancelled.extend(pending.iter().filter(|_| is_cancelled).map(|it| it.id));
            pending
        };
        if let Some(pending) = pending {
            pending.answer(end);
        }
    }

    pub(super) fn cancelled(&self) -> Vec<u64> {
        self.inner().cancelled.clone()
    }

    pub(super) fn set_next(&self, tick: Option<WallTime>) {
        {
            let mut inner = self.inner();
            inner.status.next_tick = tick.map(SystemTime::from);
            if let Some(at) = inner.status.next_tick {
                inner.state = JobState::WaitingForTick { at };
            }
        }
        metrics::job_next_tick(
            &self.name,
            tick.map(|tick| Duration::from_millis(tick.as_millis())),
        );
    }

    /// Records that a conflict was seen. Returns whether to report it.
    pub(super) fn note_conflict(&self, conflict: &JobConflict, now: Timestamp) -> bool {
        self.inner().conflicts.note(conflict, now)
    }

    /// Records that the job runs here, or on the leader.
    pub(super) fn end_not_led(&self) {
        self.inner().conflicts.end_not_led();
    }

    /// Records the latest run of the fleet.
    pub(super) fn seen(&self, latest: Option<&LatestClaim>) {
        let mut inner = self.inner();
        inner.status.fleet = latest.map(fleet_run);
        inner.watched.open_since = latest.and_then(open_since);
    }

    /// Sets the locks of which a run has one, and their TTL.
    pub(super) fn watch(&self, locks: Vec<Arc<str>>, ttl: Duration) {
        let watched = &mut self.inner().watched;
        (watched.locks, watched.ttl) = (locks, ttl);
    }

    /// The lock of a run is not watched any more, until the run is seen again.
    pub(super) fn unwatch(&self) {
        self.inner().watched.open_since = None;
    }

    /// The run that was last seen on another replica.
    pub(super) fn run_elsewhere(&self) -> Option<RunElsewhere> {
        let inner = self.inner();
        let WatchedRun { locks, ttl, open_since, .. } = &inner.watched;
        let since = open_since.filter(|_| inner.status.running.is_none())?;
        // The owner of a run on demand is not in the claim.
        let fleet = inner.status.fleet.as_ref().filter(|run| run.ended.is_none());
        let owner = fleet.and_then(|run| run.owner.clone());
        Some(RunElsewhere { locks: locks.clone(), ttl: *ttl, since, owner })
    }

    /// Records that the lock of the run on another replica is free. Notifies the task.
    pub(super) fn set_lock_over(&self) {
        self.inner().watched.is_lock_over = true;
        self.changed.notify_one();
    }

    /// Returns whether the lock of a run on another replica was found free since the last call.
    pub(super) fn take_lock_over(&self) -> bool {
        std::mem::take(&mut self.inner().watched.is_lock_over)
    }

    /// Updates the fleet's run from a later read. Returns whether there was news not after `limit`.
    pub(super) fn refresh(&self, kept: &JobHistory, limit: WallTime) -> bool {
        let Some(latest) = &kept.latest else { return false };
        let (run, new) = (&latest.run, fleet_run(latest));
        let times = [run.tick, run.since, run.ended.unwrap_or_default()];
        let is_sane = times.iter().all(|time| WallTime::since_epoch(*time) <= limit);
        let mut inner = self.inner();
        inner.watched.open_since = open_since(latest);
        let fleet = &mut inner.status.fleet;
        let is_news = fleet.as_ref().is_some_and(|old| {
            let is_later = new.tick > old.tick || new.tick == old.tick && new.since > old.since;
            let has_ended = new.tick == old.tick && new.ended > old.ended;
            is_later || has_ended
        });
        if is_sane && is_news {
            *fleet = Some(new);
        }
        is_sane && is_news
    }

    /// `blocks`: the run can't be dropped. `most`: the maximum number of runs at a time.
    pub(super) fn started(&self, running: RunningJob, blocks: bool, most: u32) {
        let mut inner = self.inner();
        let SharedJobState { status, life, .. } = &mut *inner;
        let others = u32::try_from(status.runs().count()).unwrap_or(u32::MAX);
        assert!(others < most, "{others} runs of a job that may have {most}");
        debug_assert!(!matches!(life, TaskLife::Gone(_)), "the task runs the work");
        status.next_tick = None;
        status.begin_run(running);
        status.counts.started += 1;
        inner.blocks = blocks;
    }

    /// Changes what is shown of a current run.
    pub(super) fn update_run(&self, key: RunKey, change: impl FnOnce(&mut RunningJob)) {
        self.update(|status| status.run_mut(key).map_or((), change));
    }

    /// Delay of the start of the last run that ended here.
    pub(super) fn lateness(&self) -> Duration {
        self.inner().status.last.as_ref().map_or(Duration::ZERO, |last| last.lateness)
    }

    /// The current runs.
    pub(super) fn runs(&self) -> Vec<RunningJob> {
        self.inner().status.runs().cloned().collect()
    }

    /// The current run; of several, the first.
    pub(super) fn running(&self) -> Option<RunningJob> {
        self.inner().status.running.clone()
    }

    /// The error of the latest attempt of a current run, if that failed.
    pub(super) fn last_error(&self, key: RunKey) -> Option<Arc<str>> {
        self.inner().status.run_mut(key).and_then(|run| run.last_error.clone())
    }

    /// Records the end of a current run. `now`: by the wall clock. Returns the event to send, and the run,
    /// unless the job's task is gone.
    pub(super) fn ended(
        &self,
        key: RunKey,
        outcome: &Outcome,
        took: Duration,
        now: WallTime,
    ) -> (JobEventKind, Option<RunningJob>) {
        let ended = {
            let mut inner = self.inner();
            inner.blocks = false;
            inner.status.counts.count(outcome);
            let ended = inner.status.end_run(key);
            if let Some(RunningJob { tick, since, lateness, slot, .. }) = &ended {
                let (tick, started, lateness) = (*tick, *since, *lateness);
                let outcome = outcome.clone();
                inner.status.last = Some(LastRun { tick, started, lateness, took, outcome });
                // The task of a parallel job has a state of its own.
                if slot.is_none() {
                    inner.state = JobState::Finishing;
                }
            }
            ended
        };
        let kind = JobEventKind::of(outcome, took);
        metrics::job_run(&self.name, kind.name(), took);
        if *outcome == Outcome::Finished {
            metrics::job_succeeded(&self.name, Duration::from_millis(now.as_millis()));
        }
        (kind, ended)
    }

    /// Records that the task is gone; the first reason counts. Returns the pending triggers.
    pub(super) fn set_gone(&self, reason: &str) -> Vec<PendingTrigger> {
        let (pending, _current) = {
            let mut inner = self.inner();
            debug_assert!(!matches!(inner.life, TaskLife::Gone(_)), "a task ends once");
            let reason = inner.life.reason().cloned().unwrap_or_else(|| reason.into());
            inner.life = TaskLife::Gone(reason);
            inner.status.next_tick = None;
            // The thread outlives the task that waits for it.
            if !inner.blocks {
                inner.status.running = None;
                inner.status.running_beside.clear();
            }
            let pending = Vec::from(std::mem::take(&mut inner.triggers));
            inner.cancelled.extend(pending.iter().map(|pending| pending.id));
            // The current one is dropped without the mutex, as that wakes a task.
            (pending, inner.trigger.take())
        };
        pending
    }

    /// Lets the job end, or change, after its current run. A removal stays.
    pub(super) fn retire(&self, retirement: Retirement) {
        let former = {
            let mut inner = self.inner();
            match &mut inner.retirement {
                Some(Retirement::Removed) => Some(retirement),
                other => other.replace(retirement),
            }
        };
        // Its work is foreign code.
        drop(former);
        self.changed.notify_one();
    }

    pub(super) fn is_retiring(&self) -> bool {
        self.inner().retirement.is_some()
    }

    pub(super) fn is_removed(&self) -> bool {
        matches!(self.inner().retirement, Some(Retirement::Removed))
    }

    /// Takes what replaces the job, if anything does.
    pub(super) fn take_replacement(&self) -> Option<Job> {
        let mut inner = self.inner();
        let replaced = inner.retirement.take_if(|it| matches!(it, Retirement::Replaced(_)))?;
        let Retirement::Replaced(job) = replaced else { return None };
        inner.status.schedule = job.schedule.to_string().into();
        inner.status.finding = None;
        inner.conflicts.clear();
        drop(inner);
        Some(*job)
    }

    pub(super) fn is_gone(&self) -> bool {
        matches!(self.inner().life, TaskLife::Gone(_))
    }

    /// Sets why the job ends; the first reason counts.
    pub(super) fn set_ended(&self, reason: &str) {
        let mut inner = self.inner();
        if matches!(inner.life, TaskLife::Alive) {
            inner.life = TaskLife::Ending(reason.into());
        }
    }

    /// Whether a shutdown does not wait for it.
    pub(super) fn is_gone_or_blocks(&self) -> bool {
        let inner = self.inner();
        inner.blocks || matches!(inner.life, TaskLife::Gone(_))
    }

    /// Whether nothing runs and the last run was stopped.
    pub(super) fn was_stopped(&self) -> bool {
        let status = &self.inner().status;
        let stopped = |last: &LastRun| last.outcome == Outcome::Stopped;
        status.running.is_none() && status.last.as_ref().is_some_and(stopped)
    }
}

//! One job, as its task and the handles see it.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::{
    FleetRun, Job, JobConflict, JobControl, JobCounts, JobPause, JobState, JobStatus, JobStop,
    LastRun, Outcome, RunningJob, Trigger, TriggerError,
    conflict::{self, ReportedConflict},
    fleet::FleetJob,
    trigger::PendingTrigger,
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
    pub(super) asked: Notify,
}

struct SharedJobState {
    status: JobStatus,
    /// State while nothing runs and the job is not paused.
    state: JobState,
    triggers: VecDeque<PendingTrigger>,
    /// The trigger that the current run, or attempt at one, is for.
    trigger: Option<u64>,
    /// Triggers that the shutdown cancelled.
    cancelled: Vec<u64>,
    /// Conflicts with other replicas that were reported.
    conflicts: Vec<ReportedConflict>,
    /// Why the job has ended.
    ended: Option<Arc<str>>,
    /// Its task is gone.
    is_gone: bool,
    retirement: Option<Retirement>,
    blocks: bool,
}

impl SharedJobState {
    fn pause_at(&self, now: WallTime) -> Option<&JobPause> {
        let JobStatus { paused_here, control, .. } = &self.status;
        paused_here.as_ref().or_else(|| control.pause_at(now))
    }
}

impl FleetJob for SharedJob {
    fn set_control(&self, control: JobControl) {
        self.note_control(control);
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
        Self::new(job.name.as_str().into(), &job.schedule.to_string())
    }

    fn new(name: Arc<str>, schedule: &str) -> Self {
        let status = JobStatus {
            name: Arc::clone(&name),
            schedule: schedule.into(),
            state: JobState::Starting,
            finding: None,
            next_tick: None,
            paused_here: None,
            control: JobControl::default(),
            running: None,
            last: None,
            fleet: None,
            counts: JobCounts::default(),
        };
        let inner = SharedJobState {
            status,
            state: JobState::Starting,
            triggers: VecDeque::new(),
            trigger: None,
            cancelled: Vec::new(),
            conflicts: Vec::new(),
            ended: None,
            is_gone: false,
            retirement: None,
            blocks: false,
        };
        Self { name, inner: Mutex::new(inner), asked: Notify::new() }
    }

    fn inner(&self) -> Guard<'_, SharedJobState> {
        crate::sync::lock(&self.inner)
    }

    pub(super) fn status(&self, now: WallTime, at: Timestamp) -> JobStatus {
        let inner = self.inner();
        let mut status = inner.status.clone();
        let conflict = inner.conflicts.iter().find(|conflict| conflict.is_recent(at));
        status.finding = status.finding.or_else(|| Some(conflict?.to_string().into()));
        status.state = match &inner.ended {
            _ if status.running.is_some() => JobState::Running,
            Some(reason) => JobState::Ended { reason: Arc::clone(reason) },
            None => match inner.pause_at(now).cloned() {
                Some(JobPause { by, why, until, .. }) => JobState::Paused { by, why, until },
                None => inner.state.clone(),
            },
        };
        status
    }

    pub(super) fn set_state(&self, state: JobState) {
        let former = std::mem::replace(&mut self.inner().state, state);
        drop(former);
    }

    pub(super) fn set_paused_here(&self, pause: Option<JobPause>) {
        let former = std::mem::replace(&mut self.inner().status.paused_here, pause);
        drop(former);
        self.asked.notify_one();
    }

    /// The pause that applies at `now`, here or on the whole fleet.
    pub(super) fn pause_at(&self, now: WallTime) -> Option<JobPause> {
        self.inner().pause_at(now).cloned()
    }

    pub(super) fn is_paused(&self, now: WallTime) -> bool {
        self.inner().pause_at(now).is_some()
    }

    pub(super) fn is_paused_here(&self) -> bool {
        self.inner().status.paused_here.is_some()
    }

    /// Whether a run is requested of any replica.
    pub(super) fn has_requests(&self) -> bool {
        !self.inner().status.control.requested.is_empty()
    }

    /// The request to stop the run with this token, if there is one.
    pub(super) fn stop_of(&self, token: u64) -> Option<JobStop> {
        self.inner().status.control.stop_of(token).cloned()
    }

    /// Records the control of the fleet, as just read. Notifies the task if it has changed.
    pub(super) fn note_control(&self, control: JobControl) {
        let (is_new, former) = {
            let known = &mut self.inner().status.control;
            let is_new = *known != control;
            (is_new, std::mem::replace(known, control))
        };
        drop(former);
        if is_new {
            self.asked.notify_one();
        }
    }

    pub(super) fn trigger_run(self: &Arc<Self>, id: u64) -> Result<Trigger, TriggerError> {
        let (trigger, asked) = Trigger::new(id, Some(Arc::clone(self)));
        {
            let mut inner = self.inner();
            if let Some(reason) = &inner.ended {
                let (job, reason) = (Arc::clone(&self.name), Arc::clone(reason));
                return Err(TriggerError::Ended { job, reason });
            }
            if inner.triggers.len() >= MAX_TRIGGERS {
                let (job, pending) = (Arc::clone(&self.name), inner.triggers.len());
                return Err(TriggerError::TooMany { job, pending });
            }
            inner.triggers.push_back(asked);
        }
        self.asked.notify_one();
        Ok(trigger)
    }

    pub(super) fn take_trigger(&self) -> Option<PendingTrigger> {
        let mut inner = self.inner();
        let asked = inner.triggers.pop_front()?;
        inner.trigger = Some(asked.id);
        Some(asked)
    }

    /// Begins a run that was requested of the fleet.
    pub(super) fn begin_trigger(&self, id: u64) {
        self.inner().trigger = Some(id);
    }

    /// The trigger of the current run.
    pub(super) fn trigger(&self) -> Option<u64> {
        self.inner().trigger
    }

    /// Ends the current trigger.
    pub(super) fn trigger_is_over(&self, is_cancelled: bool) {
        let mut inner = self.inner();
        let id = inner.trigger.take();
        inner.cancelled.extend(id.filter(|_| is_cancelled));
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

    /// Notes the sight of a conflict. Returns whether it is to be reported.
    pub(super) fn note_conflict(&self, conflict: &JobConflict, now: Timestamp) -> bool {
        conflict::note(&mut self.inner().conflicts, conflict, now)
    }

    /// Notes that the job runs here, or on the leader.
    pub(super) fn end_not_led(&self) {
        conflict::end_not_led(&mut self.inner().conflicts);
    }

    pub(super) fn set_finding(&self, finding: &str) {
        self.inner().status.finding = Some(finding.into());
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut JobCounts)) {
        count(&mut self.inner().status.counts);
    }

    pub(super) fn seen(&self, latest: Option<&LatestClaim>) {
        self.inner().status.fleet = latest.map(fleet_run);
    }

    /// Whether another replica was last seen running it.
    pub(super) fn runs_elsewhere(&self) -> bool {
        let status = &self.inner().status;
        let is_open = |run: &FleetRun| run.tick.is_some() && run.ended.is_none();
        status.running.is_none() && status.fleet.as_ref().is_some_and(is_open)
    }

    /// Updates the fleet's run from a later read. Returns whether there was news not after `limit`.
    pub(super) fn refresh(&self, kept: &JobHistory, limit: WallTime) -> bool {
        let Some(latest) = &kept.latest else { return false };
        let (run, new) = (&latest.run, fleet_run(latest));
        let times = [run.tick, run.since, run.ended.unwrap_or_default()];
        let is_sane = times.iter().all(|time| WallTime::since_epoch(*time) <= limit);
        let fleet = &mut self.inner().status.fleet;
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

    /// `blocks`: the run can't be dropped.
    pub(super) fn started(&self, running: RunningJob, blocks: bool) {
        let mut inner = self.inner();
        inner.status.next_tick = None;
        inner.status.running = Some(running);
        inner.status.counts.started += 1;
        inner.blocks = blocks;
    }

    /// Records the error of the current attempt.
    pub(super) fn attempt_failed(&self, error: Arc<str>) {
        if let Some(running) = &mut self.inner().status.running {
            running.last_error = Some(error);
        }
    }

    pub(super) fn tries_again(&self, attempt: u32) {
        if let Some(running) = &mut self.inner().status.running {
            running.attempt = attempt;
        }
    }

    /// Delay of the start of the last run that ended here.
    pub(super) fn lateness(&self) -> Duration {
        self.inner().status.last.as_ref().map_or(Duration::ZERO, |last| last.lateness)
    }

    /// The current run.
    pub(super) fn running(&self) -> Option<RunningJob> {
        self.inner().status.running.clone()
    }

    /// `now`: by the wall clock.
    pub(super) fn ended(&self, outcome: &Outcome, took: Duration, now: WallTime) {
        {
            let mut inner = self.inner();
            inner.blocks = false;
            inner.state = JobState::Finishing;
            inner.status.counts.count(outcome);
            if let Some(RunningJob { tick, since, lateness, .. }) = inner.status.running.take() {
                let outcome = outcome.clone();
                let last = LastRun { tick, started: since, lateness, took, outcome };
                inner.status.last = Some(last);
            }
        }
        metrics::job_run(&self.name, outcome.label(), took);
        if *outcome == Outcome::Finished {
            metrics::job_succeeded(&self.name, Duration::from_millis(now.as_millis()));
        }
    }

    /// Marks the job as gone; the first reason counts. Returns the pending triggers.
    pub(super) fn set_gone(&self, reason: &str) -> Vec<PendingTrigger> {
        let mut inner = self.inner();
        inner.ended.get_or_insert_with(|| reason.into());
        inner.is_gone = true;
        inner.status.next_tick = None;
        // The thread outlives the task that waits for it.
        if !inner.blocks {
            inner.status.running = None;
        }
        let pending = Vec::from(std::mem::take(&mut inner.triggers));
        inner.cancelled.extend(pending.iter().map(|asked| asked.id));
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
        self.asked.notify_one();
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
        self.inner().is_gone
    }

    /// Sets why the job ends; the first reason counts.
    pub(super) fn set_ended(&self, reason: &str) {
        self.inner().ended.get_or_insert_with(|| reason.into());
    }

    /// Whether a shutdown does not wait for it.
    pub(super) fn is_gone_or_blocks(&self) -> bool {
        let inner = self.inner();
        inner.is_gone || inner.blocks
    }

    /// Whether nothing runs and the last run was stopped.
    pub(super) fn was_stopped(&self) -> bool {
        let status = &self.inner().status;
        let stopped = |last: &LastRun| last.outcome == Outcome::Stopped;
        status.running.is_none() && status.last.as_ref().is_some_and(stopped)
    }

    pub(super) fn is_running(&self) -> bool {
        self.inner().status.running.is_some()
    }
}

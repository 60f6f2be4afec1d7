//! The commands that pause, resume and run a job of the whole fleet.

use std::{
    convert::identity,
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::{
    super::{UnknownJob, shared_job::SharedJob},
    control::{JobControl, JobPause, JobStop, RequestedRun},
    error::ControlError,
};
use crate::{
    error::LockError,
    lock::{Lock, Redlock, documents},
    protocol::JobDocument,
    resource::Resource,
    schedule::WallTime,
};

/// A command for a job of the whole fleet, stored on a majority of the servers. Nothing is sent before it
/// is awaited; the result is `T`, or a [`ControlError`].
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tower_redlock::Redlock;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let redlock = Redlock::embedded();
/// let tomorrow = SystemTime::now() + Duration::from_secs(86_400);
/// redlock.pause_job("report").by("ann").why("the disk is full").until(tomorrow).await?;
/// assert_eq!(&*redlock.job_control("report").await?.paused.unwrap().by, "ann");
///
/// redlock.resume_job("report").await?;
/// let id: u64 = redlock.trigger_job("report").await?;
/// assert_eq!(redlock.job_control("report").await?.requested[0].id, id);
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
///
/// Dropping the future does not undo it: the command may be in force or not.
#[must_use = "a command does nothing until it is awaited"]
pub struct JobCommand<T = ()> {
    redlock: Redlock,
    job: Result<Arc<str>, UnknownJob>,
    kind: CommandKind,
    by: Option<Arc<str>>,
    why: Option<Arc<str>>,
    until: Option<SystemTime>,
    /// The scheduler's own job, which sees the result at once.
    local: Option<Arc<SharedJob>>,
    /// Makes the result of the token that the command returns.
    result: fn(u64) -> T,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum CommandKind {
    Pause,
    Resume,
    Trigger,
    Stop,
}

/// # Commands for jobs of a fleet
impl Redlock {
    /// Pauses a job on the whole fleet, also on replicas that start later: no further tick starts until
    /// [`resume_job`](Self::resume_job), or until the time that is given. A current run continues, and
    /// requested runs start. A second pause replaces the first.
    ///
    /// Each replica reads the pause from a majority of the servers, under the job's lock, before it claims
    /// a tick. So a tick that begins after this has returned does not run. It is stored without expiry: as
    /// long as no majority of the servers loses its data, it stays over restarts of everything. The job
    /// need not be known to this process.
    pub fn pause_job(&self, name: impl Into<Arc<str>>) -> JobCommand {
        self.command(name, CommandKind::Pause, drop)
    }

    /// Ends the [pause](Self::pause_job) of a job. Each replica sees it before its next tick; of a schedule
    /// that counts from the last end, within 5 s. The latest tick runs if it is still on time
    /// ([`start_within`](crate::Job::start_within)); about the others, the job's
    /// [`Missed`](crate::scheduler::Missed) decides. No error if it was not paused.
    pub fn resume_job(&self, name: impl Into<Arc<str>>) -> JobCommand {
        self.command(name, CommandKind::Resume, drop)
    }

    /// Requests one run of a job, by any replica of the fleet, even while the job is paused. Returns its
    /// number, which the [history](Self::job_history) has once the run has begun.
    ///
    /// A replica that runs the job starts it within 5 s or so, once no other run is in progress. It first
    /// removes the request from a majority of the servers: so it starts once at most. If that replica then
    /// crashes, the next run reports it as interrupted. The run does not count as a tick: the schedule ignores it. With
    /// [`until`](JobCommand::until), it is not started later.
    pub fn trigger_job(&self, name: impl Into<Arc<str>>) -> JobCommand<u64> {
        self.command(name, CommandKind::Trigger, identity)
    }

    /// Requests that the run of a job which is under way is stopped, wherever it is. Returns its fencing
    /// token. [`job_holders`](Self::job_holders) tells when its lock is released. Of a
    /// [parallel](crate::Job::parallel) job, all runs that are under way are stopped, and the token is one
    /// of the job's lock.
    ///
    /// The replica that runs it sees the request within 5 s or so. The work gets a stop request, and is
    /// dropped after the job's [`stop_grace`](crate::Job::stop_grace); [blocking](crate::Job::blocking) work
    /// that does not return can't be stopped. The run counts as [stopped](crate::scheduler::Outcome::Stopped)
    /// and is not repeated; the schedule continues. [`revoke`](Self::revoke) takes the lock from a replica that
    /// does not see requests.
    ///
    /// Fails with [`ControlError::NotRunning`] if there is no run.
    pub fn stop_job(&self, name: impl Into<Arc<str>>) -> JobCommand<u64> {
        self.command(name, CommandKind::Stop, identity)
    }

    fn command<T>(
        &self,
        name: impl Into<Arc<str>>,
        kind: CommandKind,
        result: fn(u64) -> T,
    ) -> JobCommand<T> {
        JobCommand::new(self, Ok(name.into()), None, kind, result)
    }
}

impl<T> JobCommand<T> {
    /// A command for a job of a scheduler.
    pub(in super::super) fn here(
        redlock: &Redlock,
        job: Result<Arc<SharedJob>, UnknownJob>,
        kind: CommandKind,
        result: fn(u64) -> T,
    ) -> Self {
        let name = job.as_ref().map(|job| Arc::clone(&job.name)).map_err(Clone::clone);
        Self::new(redlock, name, job.ok(), kind, result)
    }

    fn new(
        redlock: &Redlock,
        job: Result<Arc<str>, UnknownJob>,
        local: Option<Arc<SharedJob>>,
        kind: CommandKind,
        result: fn(u64) -> T,
    ) -> Self {
        let redlock = redlock.clone();
        Self { redlock, job, kind, by: None, why: None, until: None, local, result }
    }

    /// Name of the person or program that gives the command: at most 128 bytes, without control characters. Default:
    /// the manager's [`owner`](crate::RedlockBuilder::owner).
    pub fn by(self, name: impl Into<Arc<str>>) -> Self {
        Self { by: Some(name.into()), ..self }
    }

    /// The reason, for people: at most 200 bytes, without control characters. Default: none.
    pub fn why(self, reason: impl Into<Arc<str>>) -> Self {
        Self { why: Some(reason.into()), ..self }
    }

    /// The end of a pause; the latest start of a requested run. By the wall clock of the nodes, in whole
    /// milliseconds. Default: none. A time that has passed is [`ControlError::Invalid`]. Nothing for
    /// `resume` and `stop`.
    pub fn until(self, time: SystemTime) -> Self {
        Self { until: Some(time), ..self }
    }

    /// Carries the command out; returns the fencing token under which it was stored, or the token of the run
    /// to stop.
    async fn run(self) -> Result<T, ControlError> {
        let job = self.job.clone()?;
        let now = WallTime::since_epoch(self.redlock.nodes_wall());
        let invalid =
            |reason: String| ControlError::Invalid { job: job.clone(), reason: reason.into() };
        let by = self.by.as_ref().unwrap_or_else(|| self.redlock.owner());
        check("the name", by, JobControl::MAX_NAME_BYTES).map_err(invalid)?;
        if by.is_empty() {
            return Err(invalid("the name is empty".into()));
        }
        let why = self.why.clone().filter(|why| !why.is_empty());
        if let Some(why) = &why {
            check("the reason", why, JobControl::MAX_REASON_BYTES).map_err(invalid)?;
        }
        let until = self.until.map(WallTime::from);
        if until.is_some_and(|until| until <= now) {
            return Err(invalid("the time has passed".into()));
        }
        let (by, at, until) = (Arc::clone(by), now.into(), until.map(SystemTime::from));
        let kind = self.kind;
        let run = if kind == CommandKind::Stop { running(&self.redlock, &job).await? } else { 0 };
        let (control, token) = change(&self.redlock, &job, now, |control, id| {
            match kind {
                CommandKind::Pause => control.paused = Some(JobPause { by, why, at, until }),
                CommandKind::Resume if control.paused.is_none() => return Ok(false),
                CommandKind::Resume => control.paused = None,
                CommandKind::Trigger => {
                    let requested = control.requested.len();
                    if requested >= JobControl::MAX_REQUESTS {
                        let job = Arc::clone(&job);
                        return Err(ControlError::TooManyRequests { job, requested });
                    }
                    control.requested.push(RequestedRun { id, by, why, at, until });
                }
                CommandKind::Stop => control.stop = Some(JobStop { run, by, why, at }),
            }
            control.changed = Some(at);
            Ok(true)
        })
        .await?;
        crate::log::info!(%job, ?kind, by = %self.by.as_deref().unwrap_or_else(|| self.redlock.owner()), "a command for a job is stored");
        if let Some(local) = &self.local {
            local.note_control(control);
        }
        Ok((self.result)(if kind == CommandKind::Stop { run } else { token }))
    }
}

/// Returns the fencing token of the run that is under way. If runs hold slots, returns a token of the job's
/// lock, which is greater than those of their claims.
async fn running(redlock: &Redlock, job: &Arc<str>) -> Result<u64, ControlError> {
    let nodes = |error| ControlError::Nodes { job: Arc::clone(job), error: Box::new(error) };
    let resource = Resource::of_job(job).map_err(|error| nodes(error.into()))?;
    let holders = redlock.job_holders(job).await.map_err(nodes)?;
    // The holder of the job's lock, while others hold slots, claims a tick beside them, or has claimed one.
    if let Some(holder) = holders.iter().find(|holder| resource.names().eq([&*holder.name])) {
        return Ok(holder.token.get());
    }
    if holders.is_empty() {
        return Err(ControlError::NotRunning { job: Arc::clone(job) });
    }
    let wait = redlock.default_ttl().saturating_mul(2);
    let lock = redlock.lock_own(Ok::<_, LockError>(resource)).wait(wait).acquire_for_work().await;
    Ok(lock.map_err(nodes)?.fencing_token().get())
}

/// Takes the oldest request over: removes it, so that no other replica starts it. Returns what is stored
/// now, and the request; `None` if there is none any more. Under the job's lock.
pub(in super::super) async fn take_request(
    redlock: &Redlock,
    job: &Arc<str>,
    now: WallTime,
) -> Result<(JobControl, Option<RequestedRun>), ControlError> {
    let mut taken = None;
    let take = |control: &mut JobControl, _| {
        taken = (!control.requested.is_empty()).then(|| control.requested.remove(0));
        Ok(taken.is_some())
    };
    let (control, _) = change(redlock, job, now, take).await?;
    Ok((control, taken))
}

/// Number of tries to store a change under one lock.
const TRIES: u32 = 3;
/// Pause between them.
const PAUSE: Duration = Duration::from_millis(100);

/// Changes what is stored of a job, under a lock of its own: the job's lock is held while it runs.
/// Returns what is stored now, and the token. Stores nothing if `change` returns false and nothing has
/// expired.
async fn change(
    redlock: &Redlock,
    job: &Arc<str>,
    now: WallTime,
    change: impl FnOnce(&mut JobControl, u64) -> Result<bool, ControlError>,
) -> Result<(JobControl, u64), ControlError> {
    let nodes = |error| ControlError::Nodes { job: Arc::clone(job), error: Box::new(error) };
    let lock = control_lock(redlock, job).await?;
    let token = lock.fencing_token().get();
    let stored = documents::prepare(redlock, JobDocument::Control, job, token);
    let mut control = JobControl::from_text(&stored.await.map_err(nodes)?);
    let expired = control.expire(now);
    let changes = change(&mut control, token)?;
    if changes || !expired.is_empty() {
        for number in 0.. {
            let text = control.to_text();
            let stored =
                documents::store(redlock, JobDocument::Control, job, token, number, text).await;
            match stored {
                Ok(()) => break,
                Err(_) if number + 1 < TRIES && lock.is_valid() => redlock.sleep(PAUSE).await,
                Err(error) => return Err(nodes(error)),
            }
        }
    }
    for RequestedRun { id, by, .. } in expired {
        crate::log::warn!(%job, trigger = id, %by, "a requested run was not started in time: no replica could take it over");
    }
    Ok((control, token))
}

/// Acquires the lock under which the control of a job is changed.
pub(super) async fn control_lock(redlock: &Redlock, job: &Arc<str>) -> Result<Lock, ControlError> {
    let nodes = |error| ControlError::Nodes { job: Arc::clone(job), error: Box::new(error) };
    let invalid = |reason: &str| ControlError::Invalid { job: job.clone(), reason: reason.into() };
    Resource::of_job(job).map_err(|error| invalid(&format!("not a name of a job: {error}")))?;
    if !redlock.has_fencing() {
        return Err(invalid("it needs fencing tokens: build the manager without fencing(false)"));
    }
    // The key of a process that crashed meanwhile expires.
    let wait = redlock.default_ttl().saturating_mul(2);
    let name = Ok::<_, LockError>(Resource::of_control(job));
    redlock.lock_own(name).wait(wait).acquire_for_work().await.map_err(nodes)
}

fn check(what: &str, text: &str, most: usize) -> Result<(), String> {
    if text.len() > most {
        return Err(format!("{what} has {} bytes, and may have {most}", text.len()));
    }
    if text.contains(char::is_control) {
        return Err(format!("{what} has a control character"));
    }
    Ok(())
}

type CommandFuture<T> = Pin<Box<dyn Future<Output = Result<T, ControlError>> + Send>>;

impl<T: 'static> IntoFuture for JobCommand<T> {
    type Output = Result<T, ControlError>;
    type IntoFuture = CommandFuture<T>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl<T> fmt::Debug for JobCommand<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobCommand")
            .field("job", &self.job)
            .field("kind", &self.kind)
            .field("by", &self.by)
            .field("why", &self.why)
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}

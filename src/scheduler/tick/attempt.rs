//! Under the job's lock: reads what was run, claims the tick, runs it, and stores its end.

use std::{fmt::Display, future::Future, sync::Arc, time::Duration};

use futures_util::future::{join, join3};

use super::{
    super::{
        JobConflict, JobStop, Outcome,
        claims::{AFTER_CLAIM, OwnSchedule, millis},
        fleet::{CONTROL_INTERVAL, JobRun, JobRuns, controls},
    },
    TickContext, TickError, TickOutcome,
};
use crate::{
    error::LockError,
    guard::LockContext,
    lock::{
        Redlock,
        claims::{self, JobHistory},
    },
    protocol::{TickClaim, TickRun},
    quorum::claims::LatestClaim,
    random,
    schedule::WallTime,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// How far a stored time may be ahead of the nodes' clocks, as for a scheduler.
const MAX_AHEAD: Duration = Duration::from_secs(60);
/// Interval between the checks of the time that is left to store an end.
const PAUSE: Duration = Duration::from_millis(200);

/// One attempt at a tick.
pub(super) struct TickAttempt<'a> {
    redlock: &'a Redlock,
    job: &'a Arc<str>,
    tick: WallTime,
    /// Maximum number of attempts, over all hosts.
    attempts: u32,
    stop_grace: Duration,
    phase: Mutex<TickPhase>,
}

/// How far an attempt at a tick has got: what a loss of the lock leaves behind depends on it.
enum TickPhase {
    /// Nothing is claimed, or the claim was given back, or the end is entered.
    Idle,
    /// The tick may be claimed, and nothing has begun.
    Claiming(Box<TickClaim>),
    /// The run has begun: its token, and its entry in the history.
    Running(u64, JobRun),
}

/// What to do about the tick.
enum Decision<T> {
    Run { attempt: u32 },
    Leave(TickOutcome<T>),
}

impl<'a> TickAttempt<'a> {
    pub(super) const fn new(
        redlock: &'a Redlock,
        job: &'a Arc<str>,
        tick: WallTime,
        attempts: u32,
        stop_grace: Duration,
    ) -> Self {
        Self { redlock, job, tick, attempts, stop_grace, phase: Mutex::new(TickPhase::Idle) }
    }

    /// Enters a phase. Returns the one before.
    fn enter(&self, phase: TickPhase) -> TickPhase {
        std::mem::replace(&mut *crate::sync::lock(&self.phase), phase)
    }

    fn now(&self) -> WallTime {
        WallTime::since_epoch(self.redlock.nodes_wall())
    }

    /// Runs the work if the tick is due. `own`: the schedule and the work of this program.
    pub(super) async fn run<F, Fut, T, E>(
        &self,
        context: LockContext,
        own: OwnSchedule,
        work: F,
    ) -> Result<TickOutcome<T>, TickError<E>>
    where
        F: FnOnce(TickContext) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: Display,
    {
        let (redlock, job, token) = (self.redlock, self.job, context.fencing_token().get());
        let (kept, control, runs) = join3(
            claims::prepare(redlock, job, token, &[]),
            controls(redlock, std::slice::from_ref(job)),
            JobRuns::read(redlock, job, token),
        )
        .await;
        let (kept, control) = (kept?, control?.pop().unwrap_or_default());
        if let Some(pause) = control.pause_at(self.now()) {
            return Ok(TickOutcome::Paused(pause.clone()));
        }
        let latest = self.trusted(&kept);
        let attempt = match self.decide(&kept, latest.as_ref(), &own) {
            Decision::Leave(outcome) => {
                if let TickOutcome::Conflict { conflict, .. } = &outcome {
                    self.enter_conflict(runs?, conflict, token).await;
                }
                return Ok(outcome);
            }
            Decision::Run { attempt } => attempt,
        };
        let claimed = self.claim(own, token, attempt, latest.as_ref(), &context).await?;
        let run = claimed.run;
        let entry = JobRun::of_tick(&run, Arc::clone(redlock.owner()));
        let former = self.enter(TickPhase::Running(token, entry));
        assert!(matches!(former, TickPhase::Claiming(_)), "a run begins under its claim");
        let (is_given_back, stop) =
            (Arc::<AtomicBool>::default(), Arc::<Mutex<Option<JobStop>>>::default());
        let work = work(TickContext {
            lock: context.clone(),
            tick: self.tick,
            attempt,
            is_given_back: Arc::clone(&is_given_back),
            stop: Arc::clone(&stop),
        });
        let result = tokio::select! {
            biased;
            result = work => result.map_err(TickError::Work),
            request = self.stop(&context, &stop) => Err(TickError::Stopped(request)),
        };
        if is_given_back.load(Ordering::Relaxed)
            && let Err(error) = result
        {
            self.enter(TickPhase::Idle);
            self.give_back(claimed, Some(&context)).await;
            return Err(error);
        }
        let stop = crate::sync::lock(&stop).clone();
        let result = result.map_err(|error| stop.clone().map_or(error, TickError::Stopped));
        let outcome = match &result {
            Ok(_) => Outcome::Finished,
            Err(TickError::Stopped(_)) => Outcome::Stopped,
            Err(error) => Outcome::Failed { error: error.to_string().into() },
        };
        let end = async {
            if matches!(outcome, Outcome::Failed { .. }) {
                return Ok(());
            }
            let end = TickClaim { run: run.ended(millis(self.now())), ..claimed };
            self.store_end(end.numbered(AFTER_CLAIM), &context).await
        };
        let why = stop.map(|stop| stop.to_string());
        let entered = self.enter_run(runs.ok(), latest.as_ref(), &outcome, why.as_deref());
        let (ended, ()) = join(end, entered).await;
        match (result, ended) {
            (Err(error), ended) => {
                if let Err(error) = ended {
                    crate::log::warn!(
                        job = %self.job, tick = %self.tick, %error,
                        "the end of a stopped run is not stored: a later attempt may repeat it"
                    );
                }
                Err(error)
            }
            (Ok(value), Ok(())) => Ok(TickOutcome::Ran(value)),
            (Ok(value), Err(error)) => Ok(TickOutcome::RanUnrecorded(value, error)),
        }
    }

    /// Waits for a request to stop the run, asks the work to stop, and waits for the grace to be over.
    async fn stop(&self, context: &LockContext, asked: &Mutex<Option<JobStop>>) -> JobStop {
        let token = context.fencing_token().get();
        let stop = loop {
            let pause = random::within(&(CONTROL_INTERVAL..=CONTROL_INTERVAL * 5 / 4));
            self.redlock.sleep(pause).await;
            let control = controls(self.redlock, std::slice::from_ref(self.job)).await;
            let control = control.ok().and_then(|mut control| control.pop()).unwrap_or_default();
            if let Some(stop) = control.stop_of(token, None) {
                break stop.clone();
            }
        };
        // Set first: the work may read it as soon as it gets the stop request.
        *crate::sync::lock(asked) = Some(stop.clone());
        context.ask_to_stop();
        self.redlock.sleep(self.stop_grace).await;
        stop
    }

    /// The latest run, unless its times lie in the future: the clock of the host that stored it was
    /// wrong, and the next claim replaces it.
    fn trusted(&self, kept: &JobHistory) -> Option<LatestClaim> {
        let limit = millis(self.now()) + MAX_AHEAD;
        let is_sane = |run: &TickRun| run.tick <= limit && run.since <= limit;
        let latest = kept.latest.clone()?;
        if is_sane(&latest.run) {
            return Some(latest);
        }
        crate::log::warn!(
            job = %self.job,
            "what is stored of the job lies in the future, and is not counted: the clock of the host that \
             stored it was wrong"
        );
        latest.before.filter(|before| is_sane(&before.run)).map(LatestClaim::of_former)
    }

    fn decide<T>(
        &self,
        kept: &JobHistory,
        latest: Option<&LatestClaim>,
        own: &OwnSchedule,
    ) -> Decision<T> {
        let tick = millis(self.tick);
        let Some(latest @ LatestClaim { run, owner, .. }) =
            latest.filter(|latest| latest.run.tick >= tick)
        else {
            return if kept.assumed_run_until >= tick {
                Decision::Leave(TickOutcome::Unknown)
            } else {
                Decision::Run { attempt: 1 }
            };
        };
        let (at, by) = (|time| WallTime::since_epoch(time).into(), owner.clone());
        if let Some(conflict) = own.conflict(latest) {
            return Decision::Leave(TickOutcome::Conflict { tick: at(run.tick), conflict });
        }
        if run.tick > tick {
            return Decision::Leave(TickOutcome::Superseded { tick: at(run.tick), by });
        }
        if let Some(ended) = run.ended.map(at) {
            return Decision::Leave(TickOutcome::AlreadyDone { by, ended: Some(ended) });
        }
        if run.attempt >= self.attempts.max(1) {
            return Decision::Leave(TickOutcome::GivenUp { by, attempts: run.attempt });
        }
        Decision::Run { attempt: run.attempt + 1 }
    }

    /// Stores the claim on a majority.
    async fn claim(
        &self,
        mut own: OwnSchedule,
        token: u64,
        attempt: u32,
        latest: Option<&LatestClaim>,
        context: &LockContext,
    ) -> Result<TickClaim, LockError> {
        let (owner, since) = (Arc::clone(self.redlock.owner()), millis(self.now()));
        if let Some(latest) = latest {
            self.report_conflict(&mut own, latest);
        }
        let run = TickRun::new(millis(self.tick), attempt, since);
        let fates = latest.map(|latest| latest.fates).unwrap_or_default();
        let before = latest.cloned().map(LatestClaim::into_former);
        let claim = TickClaim::new(token, run, owner, before);
        let claim = claim.by_schedule(own.mark).with_fates(fates);
        let former = self.enter(TickPhase::Claiming(Box::new(claim.clone())));
        assert!(matches!(former, TickPhase::Idle), "a tick is claimed once");
        match claims::claim(self.redlock, self.job, claim.clone()).await {
            Ok(()) => Ok(claim),
            Err(error) => {
                self.give_back(claim, Some(context)).await;
                self.enter(TickPhase::Idle);
                Err(error)
            }
        }
    }

    /// Logs a conflict with the program that ran the latest tick. Another schedule, or other work, is a change of
    /// the job; if the tick before was this program's, both are in use.
    fn report_conflict(&self, own: &mut OwnSchedule, latest: &LatestClaim) {
        let fingerprint = own.mark.fingerprint;
        let before = latest.before.as_ref().and_then(|before| before.schedule.as_ref());
        if before.is_some_and(|before| before.fingerprint == fingerprint)
            && let Some(conflict) = own.conflict(latest)
        {
            crate::log::warn!(job = %self.job, "{conflict}");
        }
        if let Some(stored) = &latest.schedule
            && let Some(conflict @ JobConflict::ZoneDatabase { .. }) =
                own.compare(stored, latest, self.redlock.owner())
        {
            crate::log::info!(job = %self.job, "{conflict}");
        }
    }

    /// Enters into the job's history that another program has run the tick, once.
    async fn enter_conflict(&self, mut runs: JobRuns, conflict: &JobConflict, token: u64) {
        if runs.has_conflict(self.tick) {
            return;
        }
        let owner = Arc::clone(self.redlock.owner());
        runs.add(JobRun::conflict(self.tick, self.now(), owner, conflict));
        if let Err(error) = runs.store(self.redlock, self.job, token, 0).await {
            crate::log::warn!(job = %self.job, %error, "a conflict is not entered into the job's history");
        }
    }

    /// Stores the previous run in the place of a claim that too few nodes stored: nothing was started.
    /// Without a lock, nodes that promised a later token refuse it.
    async fn give_back(&self, claim: TickClaim, context: Option<&LockContext>) {
        let none = TickRun::new(Duration::ZERO, 1, claim.run.since);
        let before = claim.before.as_ref();
        let run = before.map_or(none, |before| before.run);
        let owner = before.and_then(|before| before.owner.clone());
        let owner = owner.unwrap_or_else(|| Arc::clone(&claim.owner));
        let previous = TickClaim { run, owner, ..claim }.numbered(AFTER_CLAIM);
        let stored = if let Some(context) = context {
            self.store_end(previous, context).await
        } else {
            let owed = self.redlock.owe_run(None, self.job, previous);
            owed.stored_within(self.redlock.node_timeout() * 10).await
        };
        if let Err(error) = stored {
            crate::log::warn!(
                job = %self.job,
                %error,
                "a tick that was claimed and not started could not be given back: it may count as an attempt"
            );
        }
    }

    /// Stores the end of the run on a majority, and waits for that while the lock is held. After that it is
    /// stored in the background.
    async fn store_end(&self, end: TickClaim, context: &LockContext) -> Result<(), LockError> {
        let owed = self.redlock.owe_run(None, self.job, end);
        loop {
            tokio::select! {
                biased;
                is_stored = owed.is_stored() => {
                    return if is_stored { Ok(()) } else { Err(owed.failure()) };
                }
                () = self.redlock.sleep(PAUSE) => {}
            }
            if context.remaining() <= 2 * PAUSE {
                owed.carry_on();
                return Err(owed.failure());
            }
        }
    }

    /// Enters the end of the run into the job's history, which is read again where it was not before.
    async fn enter_run(
        &self,
        runs: Option<JobRuns>,
        latest: Option<&LatestClaim>,
        outcome: &Outcome,
        error: Option<&str>,
    ) {
        let TickPhase::Running(token, mut run) = self.enter(TickPhase::Idle) else { return };
        run.end(outcome, self.now(), error);
        let entered = async {
            let mut runs = match runs {
                Some(runs) => runs,
                None => JobRuns::read(self.redlock, self.job, token).await?,
            };
            runs.add_interrupted(latest);
            runs.add(run);
            runs.store(self.redlock, self.job, token, 0).await
        };
        if let Err(error) = entered.await {
            crate::log::warn!(job = %self.job, %error, "a run is not entered into the job's history");
        }
    }

    /// After a loss: gives back a claim under which nothing has begun; otherwise enters the loss, unless
    /// another host has the job's lock already, and will.
    pub(super) async fn note_lost(&self, error: &LockError) {
        let phase = self.enter(TickPhase::Idle);
        match (phase, error) {
            (TickPhase::Claiming(claim), _) => self.give_back(*claim, None).await,
            (running @ TickPhase::Running(..), LockError::Lost { cause }) => {
                self.enter(running);
                self.enter_run(None, None, &Outcome::Lost { cause: cause.clone() }, None).await;
            }
            _ => {}
        }
    }
}

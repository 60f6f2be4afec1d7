//! Runs of a parallel job, beside each other: each in a task of its own, under a slot of its own.
//!
//! The job's task claims each tick under the job's lock, as for any job, so claims are ordered by the
//! tokens of one lock. Tokens of two slots do not compare, and may be equal: as tokens of claims, they
//! would let two replicas claim one tick. A run therefore has two locks: the job's lock from before its
//! claim until it begins, and a slot from before its claim until its end is stored. The end is stored
//! under the job's lock again.
//!
//! # Lock order
//!
//! A run that has a slot waits for the job's lock. No holder of the job's lock waits for a slot: without
//! a free one, it releases the job's lock.
//!
//! # Runs that were interrupted
//!
//! An open run of the history is in progress while its owner holds a slot; an owner that is alive stores
//! the ends of all its runs. Runs of this replica are in progress until their end is stored, or was given
//! up.

use std::{ops::RangeInclusive, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::join};

use super::{
    super::{
        Outcome,
        claims::{AFTER_CLAIM, millis},
        fleet::{JobRun, JobRuns},
        pending_trigger::PendingTrigger,
        shared::{Control, Phase},
        work::panic_message,
    },
    end::{EndedRun, keep_polled},
    lanes::{Lanes, OpenRun},
    run::{BegunRun, Runner},
    task::JobTask,
};
use crate::{
    error::LockError,
    lock::claims,
    protocol::{ScheduleMark, TickClaim},
    quorum::claims::LatestClaim,
    random,
    resource::Resource,
};

/// Maximum wait for the job's lock to store an end, in one try.
const END_WAIT: Duration = Duration::from_secs(1);
/// Pause before the next try.
const PAUSE: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_millis(300);

impl JobTask {
    /// Records that a run of a parallel job is in progress.
    pub(super) fn open(&self, entry: &JobRun) -> Option<OpenRun> {
        self.lanes.as_ref().map(|lanes| lanes.open(entry))
    }

    /// Reads under the job's lock which owners hold slots, for a parallel job.
    pub(super) async fn read_slots(&self) {
        let Some(lanes) = &self.lanes else { return };
        // With the slot after the last: a client with more slots may hold any of these.
        let Ok(job) = Resource::of_job(&self.env.job.name) else { return };
        let slots = |name| Resource::of_slots(name, lanes.count + 1).shared_names().to_vec();
        let names: Vec<_> = job.names().flat_map(slots).collect();
        let owners = self.env.redlock.possible_owners(&names.into()).await.ok();
        let owners = owners.filter(|owners| owners.last().is_none_or(Vec::is_empty));
        lanes.note_owners(owners);
    }

    /// Runs the work in a task of its own, beside other runs, to the end.
    pub(super) fn run_beside(&mut self, begun: BegunRun, lanes: Arc<Lanes>) {
        if !begun.is_triggered() {
            self.fleet.ended(&begun.run, None);
        }
        let run = RunBeside {
            runner: self.runner(),
            lanes,
            mark: self.fleet.own_schedule.mark.clone(),
            trigger: self.env.job.detach_trigger(),
        };
        self.executor.spawner.spawn(Box::pin(run.drive(begun)));
    }
}

/// A run of a parallel job.
struct RunBeside {
    runner: Runner,
    lanes: Arc<Lanes>,
    /// The job's schedule as this replica stores it.
    mark: ScheduleMark,
    trigger: Option<PendingTrigger>,
}

impl RunBeside {
    async fn drive(mut self, mut begun: BegunRun) {
        let _until_the_end = begun.take_lane();
        let env = Arc::clone(&self.runner.env);
        let (key, info) = (begun.key(), begun.info());
        // The work's panics are caught where it runs; subscribers are foreign code too.
        let run = AssertUnwindSafe(self.run(begun)).catch_unwind().await;
        if let Err(panic) = run {
            let message = panic_message(&*panic);
            crate::log::warn!(
                job = %env.job.name,
                panic = %message,
                "a subscriber panicked: the end of a run is not stored"
            );
            let outcome = Outcome::Panicked { message };
            let (kind, running) = env.job.ended(key, &outcome, Duration::ZERO, env.now());
            if running.is_some() {
                env.emit_of_run(&info, kind);
            }
            if let Some(trigger) = self.trigger.take() {
                trigger.answer(Ok(outcome));
            }
        }
    }

    async fn run(&mut self, begun: BegunRun) {
        let (ended, _) = self.runner.run(begun).await;
        if let Some(trigger) = self.trigger.take() {
            trigger.answer(Ok(ended.outcome.clone()));
        }
        let (redlock, lock) = (self.runner.env.redlock.clone(), ended.lock.clone());
        let limit = self.runner.env.options.polled_within();
        lock.keep();
        keep_polled(&redlock, &lock, limit, self.store_and_release(ended)).await;
    }

    /// Stores the end of the run, then releases its slot after `min_hold`.
    async fn store_and_release(&mut self, ended: EndedRun) {
        let env = Arc::clone(&self.runner.env);
        loop {
            let Err(error) = self.store_end(&ended).await else { break };
            let is_stopped = self.runner.control.borrow().phase >= Phase::Stopped;
            if is_stopped || ended.lock.ensure_valid().is_err() {
                crate::log::warn!(
                    job = %env.job.name,
                    %error,
                    "the end of a run is not stored: it is with the next run of this replica"
                );
                self.lanes.keep_unstored(ended.entry.clone());
                break;
            }
            tokio::select! {
                biased;
                () = env.sleep(random::within(&PAUSE)) => {}
                _ = self.runner.control.wait_for(|control| control.phase >= Phase::Stopped) => {}
            }
        }
        let kept_for = env.redlock.now().saturating_duration_since(ended.begun);
        let rest = env.options.min_hold.saturating_sub(kept_for);
        if ended.hold.is_some() && !rest.is_zero() {
            let is_over = |control: &Control| control.phase > Phase::Running;
            tokio::select! {
                biased;
                () = env.sleep(rest) => {}
                _ = self.runner.control.wait_for(is_over) => {}
            }
        }
    }

    /// Enters the end of the run into the history and, if its tick is still the latest one, into the claim.
    async fn store_end(&self, ended: &EndedRun) -> Result<(), LockError> {
        let env = &self.runner.env;
        let (redlock, name) = (&env.redlock, &env.job.name);
        let lock = env.options.request(redlock, name).wait(END_WAIT).acquire_for_work().await?;
        let token = lock.fencing_token().get();
        let (kept, runs) =
            join(claims::prepare(redlock, name, token, &[]), JobRuns::read(redlock, name, token))
                .await;
        let (kept, mut runs) = (kept?, runs?);
        runs.add(ended.entry.clone());
        let is_of_it = |latest: &LatestClaim| latest.run.is_open() && latest.run == ended.run;
        let end = kept.latest.filter(is_of_it).filter(|_| ended.info.trigger.is_none());
        let end = async {
            let Some(latest) = end else { return Ok(()) };
            let run = latest.run.ended(millis(env.now()));
            let owner = latest.owner.clone().unwrap_or_else(|| Arc::clone(redlock.owner()));
            let mark = latest.schedule.clone().unwrap_or_else(|| self.mark.clone());
            // On few nodes it counts as not stored: then the open run counts.
            let end = TickClaim::new(token, run, owner, Some(latest.clone().into_former()));
            let end = end.by_schedule(mark).with_fates(latest.fates).numbered(AFTER_CLAIM);
            claims::claim(redlock, name, end).await
        };
        let (end, entered) = join(end, runs.store(redlock, name, token, 0)).await;
        end.and(entered)
    }
}

//! The history of a job's runs, as the replica that runs it enters them.

use std::{future::Future, sync::Arc};

use super::{
    super::{
        JobEventKind,
        fleet::{JobRun, JobRuns},
    },
    env::JobEnv,
};
use crate::{
    error::{LockError, ServerText},
    quorum::claims::LatestClaim,
};

/// The history of a job, as this replica knows it.
#[derive(Debug, Default)]
pub(super) struct HistoryState {
    /// As read under the lock with this token.
    read: Option<(u64, JobRuns)>,
    /// The token of the latest store, and the number of the next one under it.
    next: (u64, u32),
    /// Runs of this replica that too few nodes stored, the oldest first.
    unstored: Vec<JobRun>,
}

impl HistoryState {
    /// Records the history as it was read under the lock with `token`.
    pub(super) fn note_read(&mut self, env: &JobEnv, token: u64, read: Result<JobRuns, LockError>) {
        if let Err(error) = &read {
            // It is read again at the end of the run.
            crate::log::debug!(job = %env.job.name, %error, "the history was not read");
        }
        self.read = read.ok().map(|runs| (token, runs));
    }

    /// Enters the runs that have not ended and are not in progress, under the job's lock. Returns those that
    /// were found now, once they are stored: so one replica reports them.
    pub(super) async fn enter_interrupted(
        &mut self,
        env: &JobEnv,
        token: u64,
        latest: Option<&LatestClaim>,
        is_alive: impl Fn(&JobRun) -> bool,
    ) -> Vec<JobRun> {
        let Some((_, mut runs)) = self.read.take().filter(|(of, _)| *of == token) else {
            return Vec::new();
        };
        for run in &self.unstored {
            runs.add(run.clone());
        }
        let is_broken_off = |latest: &&LatestClaim| {
            let owner = latest.owner.clone();
            owner.is_none_or(|owner| !is_alive(&JobRun::of_tick(&latest.run, owner)))
        };
        let added = runs.add_interrupted(latest.filter(is_broken_off));
        let mut found = runs.break_off_open(&is_alive);
        found.extend(added);
        if !found.is_empty() {
            let number = self.take_number(token);
            if let Err(error) = runs.store(&env.redlock, &env.job.name, token, number).await {
                // The next run enters them.
                crate::log::debug!(job = %env.job.name, %error, "interrupted runs are not entered");
                return Vec::new();
            }
            self.unstored.clear();
        }
        self.read = Some((token, runs));
        found
    }

    /// Returns the number of the next store under a token.
    fn take_number(&mut self, token: u64) -> u32 {
        let (of, next) = self.next;
        let number = if of == token { next } else { 0 };
        self.next = (token, number + 1);
        number
    }

    /// Adds ended runs that too few nodes stored.
    pub(super) fn add_unstored(&mut self, runs: Vec<JobRun>) {
        self.unstored.extend(runs);
        let over = self.unstored.len().saturating_sub(JobRuns::MAX);
        self.unstored.drain(..over);
    }

    /// Enters a run into the stored history. Returns the store, which borrows nothing: for
    /// [`note_stored`](Self::note_stored).
    pub(super) fn store(
        &mut self,
        env: &JobEnv,
        token: u64,
        run: JobRun,
    ) -> impl Future<Output = (JobRun, Result<JobRuns, LockError>)> + Send + use<> {
        let (redlock, job) = (env.redlock.clone(), Arc::clone(&env.job.name));
        let read = self.read.take().filter(|(of, _)| *of == token);
        let unstored = self.unstored.clone();
        let number = self.take_number(token);
        async move {
            let entered = run.clone();
            let store = async {
                let mut runs = match read {
                    Some((_, runs)) => runs,
                    None => JobRuns::read(&redlock, &job, token).await?,
                };
                for run in unstored {
                    runs.add(run);
                }
                runs.add(entered);
                runs.store(&redlock, &job, token, number).await?;
                Ok(runs)
            };
            let stored = store.await;
            (run, stored)
        }
    }

    /// Records whether a run was entered. If not, it is entered with the next run of this replica.
    pub(super) fn note_stored(
        &mut self,
        env: &JobEnv,
        token: u64,
        run: JobRun,
        stored: Result<JobRuns, LockError>,
    ) {
        match stored {
            Ok(runs) => {
                self.read = Some((token, runs));
                self.unstored.clear();
            }
            Err(error) => {
                crate::log::warn!(
                    job = %env.job.name,
                    %error,
                    "a run is not entered into the job's history: it is with the next run of this replica"
                );
                if self.unstored.len() == JobRuns::MAX {
                    self.unstored.remove(0);
                }
                self.unstored.push(run);
            }
        }
        debug_assert!(self.unstored.len() <= JobRuns::MAX);
    }
}

/// Reports a run on demand that was interrupted.
pub(super) fn report_broken_off(env: &JobEnv, run: JobRun) {
    crate::log::warn!(
        job = %env.job.name,
        trigger = run.trigger,
        owner = %ServerText(&run.owner),
        "a triggered run did not end: its replica crashed, or could not store the end"
    );
    let kind = JobEventKind::Interrupted { by: run.owner };
    env.events.emit_for(&env.job, run.tick.into(), run.trigger, kind);
}

//! The history of a job's runs, as the replica that runs it enters them.

use std::{future::Future, sync::Arc};

use super::{
    JobEventKind,
    driver::Driver,
    fleet::{JobRun, JobRuns},
};
use crate::{
    error::{LockError, ServerText},
    lock::documents,
    protocol::JobDocument,
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

impl Driver {
    /// Notes the history as it was read under the lock with `token`.
    pub(super) fn note_history(&mut self, token: u64, read: Result<Arc<str>, LockError>) {
        self.history.read = match read {
            Ok(text) => Some((token, JobRuns::from_text(&text))),
            Err(error) => {
                // It is read again at the end of the run.
                crate::log::debug!(job = %self.job.name, %error, "the history was not read");
                None
            }
        };
    }

    /// Enters the runs that have not ended, under the job's lock: nothing is in progress.
    pub(super) fn enter_broken_off(&mut self, latest: Option<&LatestClaim>) {
        let Some((_, runs)) = &mut self.history.read else { return };
        for run in &self.history.unstored {
            runs.add(run.clone());
        }
        runs.add_broken_off(latest);
        for run in runs.break_off_open() {
            crate::log::warn!(
                job = %self.job.name,
                trigger = run.trigger,
                owner = %ServerText(&run.owner),
                "a triggered run did not end: its replica crashed, or could not store the end"
            );
            let kind = JobEventKind::BrokenOff { by: run.owner };
            self.shared.emit_for(&self.job, run.tick.into(), run.trigger, kind);
        }
    }

    /// Enters a run into the stored history. Returns the store, which borrows nothing: for
    /// [`note_stored`](Self::note_stored).
    pub(super) fn store_run(
        &mut self,
        token: u64,
        run: JobRun,
    ) -> impl Future<Output = (JobRun, Result<JobRuns, LockError>)> + Send + use<> {
        let (redlock, job) = (self.shared.redlock.clone(), Arc::clone(&self.job.name));
        let read = self.history.read.take().filter(|(of, _)| *of == token);
        let unstored = self.history.unstored.clone();
        let (of, next) = self.history.next;
        let number = if of == token { next } else { 0 };
        self.history.next = (token, number + 1);
        async move {
            let entered = run.clone();
            let store = async {
                let mut runs = if let Some((_, runs)) = read {
                    runs
                } else {
                    let history = JobDocument::History;
                    let text = documents::prepare(&redlock, history, &job, token).await?;
                    JobRuns::from_text(&text)
                };
                for run in unstored {
                    runs.add(run);
                }
                runs.add(entered);
                let text = runs.to_text();
                documents::store(&redlock, JobDocument::History, &job, (token, number), text)
                    .await?;
                Ok(runs)
            };
            let stored = store.await;
            (run, stored)
        }
    }

    /// Notes whether a run was entered. If not, it is entered with the next run of this replica.
    pub(super) fn note_stored(
        &mut self,
        token: u64,
        (run, stored): (JobRun, Result<JobRuns, LockError>),
    ) {
        let history = &mut self.history;
        match stored {
            Ok(runs) => {
                history.read = Some((token, runs));
                history.unstored.clear();
            }
            Err(error) => {
                crate::log::warn!(
                    job = %self.job.name,
                    %error,
                    "a run is not entered into the job's history: it is with the next run of this replica"
                );
                if history.unstored.len() == JobRuns::MAX {
                    history.unstored.remove(0);
                }
                history.unstored.push(run);
            }
        }
    }
}

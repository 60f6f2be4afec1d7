//! Work under the lock of its key, from its start to the record of its end.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use pin_project::pin_project;

use super::{
    Check, Completes, OnceError, Work,
    outcome::OnceOutcome,
    record::{DropWarning, Recording, StartedRecord, record},
    telemetry,
    terms::Terms,
    work::{CheckedWork, WorkVerdict},
};
use crate::{
    error::LockError,
    guard::{Guarded, Hold},
    lock::{ActiveLease, Lock},
    resource::Resource,
};

/// The future of the work, its guard and its record.
#[pin_project]
pub(super) struct Execution<W: Work, C: Check<W::Failure>, J> {
    /// Dropped first, so that the record is removed under the lock.
    started_record: Option<StartedRecord>,
    #[pin]
    step: ExecutionStep<W, C>,
    lease: Arc<ActiveLease>,
    terms: Terms,
    completion: J,
}

#[pin_project(project = ExecutionStepProj)]
enum ExecutionStep<W: Work, C: Check<W::Failure>> {
    Running {
        #[pin]
        guarded: Guarded<CheckedWork<W, C>>,
    },
    /// The work has ended, and its record is being stored; the lock is still renewed.
    Completing {
        /// Records that the work is done, or that its outcome is unknown.
        recording: Recording,
        /// `None` if the check found the work done.
        output: Option<W::Success>,
        warning: DropWarning,
        hold: Hold,
    },
    Over,
}

impl<W: Work, C: Check<W::Failure>, J> Execution<W, C, J> {
    /// Starts the check and the work.
    ///
    /// # Errors
    ///
    /// If the lock is no longer valid.
    pub(super) fn start(
        (lock, work, check): (Lock, W, C),
        started_record: StartedRecord,
        terms: Terms,
        completion: J,
    ) -> Result<Self, LockError> {
        let lease = Arc::clone(lock.lease());
        let mut started_record = Some(started_record);
        let make = |context| {
            // Held here during the call: if it panics, the record is removed under the lock.
            let record = started_record.take();
            let flag = record.as_ref().map(|record| record.flag().clone()).unwrap_or_default();
            let work = CheckedWork::new(work, check, flag, context);
            started_record = record;
            work
        };
        let step = ExecutionStep::Running { guarded: Guarded::start(lock, make)? };
        Ok(Self { started_record, step, lease, terms, completion })
    }

    pub(super) fn resource(&self) -> &Resource {
        self.lease.resource()
    }

    #[cfg(feature = "http")]
    pub(super) const fn lease(&self) -> &Arc<ActiveLease> {
        &self.lease
    }

    pub(super) const fn name(&self) -> &'static str {
        match self.step {
            ExecutionStep::Running { .. } => "running",
            ExecutionStep::Completing { .. } => "completing",
            ExecutionStep::Over => "over",
        }
    }
}

impl<W, C, J> Future for Execution<W, C, J>
where
    W: Work,
    C: Check<W::Failure>,
    J: Completes<W::Success>,
{
    type Output = Result<OnceOutcome<W::Success>, OnceError<W::Failure>>;

    /// # Panics
    ///
    /// If polled again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let ended = match this.step.as_mut().project() {
                ExecutionStepProj::Running { guarded } => match ready!(guarded.poll(cx)) {
                    Ok((Ok(output), hold)) => {
                        match after_work(
                            output,
                            hold,
                            this.completion,
                            *this.terms,
                            this.started_record,
                        ) {
                            Ok(completing) => {
                                this.step.set(completing);
                                continue;
                            }
                            Err(output) => Ok(OnceOutcome::Ran(output)),
                        }
                    }
                    Ok((Err(error), _hold)) => {
                        // Before the release of the lock.
                        this.started_record.take().into_iter().for_each(StartedRecord::forget);
                        Err(OnceError::Work(error))
                    }
                    Err(lost) => {
                        this.started_record
                            .take()
                            .into_iter()
                            .for_each(StartedRecord::forget_unless_started);
                        Err(lost.into())
                    }
                },
                ExecutionStepProj::Completing { recording, output, warning, hold } => {
                    let recorded = ready!(Pin::new(&mut *recording).poll(cx));
                    warning.disarm();
                    Ok(match (output.take(), recorded) {
                        (Some(output), recorded) if !recording.record().is_done => {
                            telemetry::unknown(hold.lease(), recorded.is_ok());
                            OnceOutcome::Ran(output)
                        }
                        (Some(output), Ok(())) => OnceOutcome::Ran(output),
                        (Some(output), Err(error)) => {
                            telemetry::unrecorded(hold.lease(), &error);
                            OnceOutcome::Unrecorded(output, error)
                        }
                        // If the record is not stored, the next request runs the check again.
                        (None, _) => OnceOutcome::Done {
                            record: Arc::clone(recording.record()),
                            remaining: recording.retain(),
                        },
                    })
                }
                ExecutionStepProj::Over => panic!("polled after it was ready"),
            };
            this.step.set(ExecutionStep::Over);
            return Poll::Ready(ended);
        }
    }
}

/// Starts the recording of ended work, or returns the output if it does not complete the key.
/// `output` is `None` if the check found the work done.
fn after_work<W: Work, C: Check<W::Failure>>(
    output: Option<W::Success>,
    hold: Hold,
    completion: &impl Completes<W::Success>,
    terms: Terms,
    started_record: &mut Option<StartedRecord>,
) -> Result<ExecutionStep<W, C>, W::Success> {
    let verdict = output.as_ref().map_or(WorkVerdict::Done, |output| completion.verdict(output));
    let started_record = started_record.take();
    let is_stored = started_record.as_ref().is_some_and(StartedRecord::is_stored);
    let (is_done, time, output) = match (verdict, output) {
        (WorkVerdict::Free, Some(output)) => {
            started_record.into_iter().for_each(StartedRecord::forget);
            return Err(output);
        }
        (WorkVerdict::Unknown { hold: Some(time) }, output @ Some(_)) if !is_stored => {
            (false, time, output)
        }
        (WorkVerdict::Unknown { .. }, Some(output)) => {
            telemetry::unknown(hold.lease(), is_stored);
            started_record.into_iter().for_each(StartedRecord::keep);
            return Err(output);
        }
        (_, output) => (true, terms.retain, output),
    };
    let payload = match &output {
        Some(output) if is_done => completion.payload(output),
        _ => Arc::default(),
    };
    // The work has ended: dropping this future no longer removes the record.
    started_record.into_iter().for_each(StartedRecord::keep);
    let lease = Arc::clone(hold.lease());
    let warning = DropWarning::new(&lease, is_done);
    let record = record(&lease, is_done, payload);
    let recording = Recording::start(lease, record, time);
    Ok(ExecutionStep::Completing { recording, output, warning, hold })
}

impl<W: Work, C: Check<W::Failure>, J> fmt::Debug for Execution<W, C, J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution")
            .field("resource", self.resource())
            .field("step", &self.name())
            .finish_non_exhaustive()
    }
}

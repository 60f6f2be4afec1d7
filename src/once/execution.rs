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
    completion::Verdict,
    outcome::Outcome,
    record::{StartedRecord, record},
    recording::{DropWarning, Recording},
    telemetry,
    terms::Terms,
    work::Checked,
};
use crate::{
    error::LockError,
    guard::{Guarded, Hold},
    lock::{ActiveLease, Lock},
    resource::Resource,
};

/// Work under the lock of its key, from its beginning to its record.
#[pin_project]
pub(super) struct Execution<W: Work, C: Check<W::Failure>, J> {
    /// Dropped first: what is to be forgotten is forgotten under the lock.
    started_record: Option<StartedRecord>,
    #[pin]
    step: Step<W, C>,
    lease: Arc<ActiveLease>,
    terms: Terms,
    completion: J,
}

#[pin_project(project = StepProj)]
enum Step<W: Work, C: Check<W::Failure>> {
    Running {
        #[pin]
        guarded: Guarded<Checked<W, C>>,
    },
    /// The work is over, and is being recorded; the lock is renewed still.
    Completing {
        /// That it is done, or that nobody knows.
        recording: Recording,
        /// `None` where the check found that it was done.
        output: Option<W::Success>,
        warning: DropWarning,
        hold: Hold,
    },
    Over,
}

impl<W: Work, C: Check<W::Failure>, J> Execution<W, C, J> {
    /// Starts the check and the work, unless the lock's validity is over.
    pub(super) fn start(
        (lock, work, check): (Lock, W, C),
        started_record: StartedRecord,
        terms: Terms,
        completion: J,
    ) -> Result<Self, LockError> {
        let lease = Arc::clone(lock.lease());
        let mut started_record = Some(started_record);
        let make = |context| {
            // Where this panics, what was not begun is forgotten under the lock.
            let set = started_record.take();
            let begun = set.as_ref().map(|set| set.begun().clone()).unwrap_or_default();
            let checked = Checked::new(work, check, begun, context);
            started_record = set;
            checked
        };
        let step = Step::Running { guarded: Guarded::start(lock, make)? };
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
            Step::Running { .. } => "running",
            Step::Completing { .. } => "completing",
            Step::Over => "over",
        }
    }
}

impl<W, C, J> Future for Execution<W, C, J>
where
    W: Work,
    C: Check<W::Failure>,
    J: Completes<W::Success>,
{
    type Output = Result<Outcome<W::Success>, OnceError<W::Failure>>;

    /// # Panics
    ///
    /// If polled again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let ended = match this.step.as_mut().project() {
                StepProj::Running { guarded } => match ready!(guarded.poll(cx)) {
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
                            Err(output) => Ok(Outcome::Ran(output)),
                        }
                    }
                    Ok((Err(error), _hold)) => {
                        // Before the lock is given back.
                        this.started_record.take().into_iter().for_each(StartedRecord::forget);
                        Err(OnceError::Work(error))
                    }
                    Err(lost) => {
                        this.started_record.take().into_iter().for_each(StartedRecord::end);
                        Err(lost.into())
                    }
                },
                StepProj::Completing { recording, output, warning, hold } => {
                    let recorded = ready!(Pin::new(&mut *recording).poll(cx));
                    warning.disarm();
                    Ok(match (output.take(), recorded) {
                        (Some(output), recorded) if !recording.record().is_done => {
                            telemetry::unknown(hold.lease(), recorded.is_ok());
                            Outcome::Ran(output)
                        }
                        (Some(output), Ok(())) => Outcome::Ran(output),
                        (Some(output), Err(error)) => {
                            let token = hold.lease().token();
                            telemetry::unrecorded(hold.lease().resource(), token.get(), &error);
                            Outcome::Unrecorded(output, error)
                        }
                        // The check asks again the next time.
                        (None, _) => Outcome::Done {
                            record: Arc::clone(recording.record()),
                            remaining: recording.retain(),
                        },
                    })
                }
                StepProj::Over => panic!("polled after it was ready"),
            };
            this.step.set(Step::Over);
            return Poll::Ready(ended);
        }
    }
}

/// What follows from what the work made: its record, or at once its output, where that does not
/// complete the key. `None`: it was done before.
fn after_work<W: Work, C: Check<W::Failure>>(
    output: Option<W::Success>,
    hold: Hold,
    completion: &impl Completes<W::Success>,
    terms: Terms,
    started_record: &mut Option<StartedRecord>,
) -> Result<Step<W, C>, W::Success> {
    let verdict = output.as_ref().map_or(Verdict::Done, |output| completion.verdict(output));
    let output = match (verdict, output) {
        (Verdict::Free, Some(output)) => {
            started_record.take().into_iter().for_each(StartedRecord::forget);
            return Err(output);
        }
        (Verdict::Unknown { hold: time }, Some(output)) => {
            let is_kept = started_record.as_ref().is_some_and(StartedRecord::is_kept);
            let Some(time) = time.filter(|_| !is_kept) else {
                telemetry::unknown(hold.lease(), is_kept);
                started_record.take().into_iter().for_each(StartedRecord::keep);
                return Err(output);
            };
            started_record.take().into_iter().for_each(StartedRecord::keep);
            let lease = Arc::clone(hold.lease());
            let record = record(&lease, false, Arc::default());
            let warning = DropWarning::new(&lease, false);
            let recording = Recording::start(lease, record, time);
            return Ok(Step::Completing { recording, output: Some(output), warning, hold });
        }
        (_, output) => output,
    };
    let payload = output.as_ref().map_or_else(Arc::default, |output| completion.payload(output));
    // From here the work is done, whoever is told of it.
    started_record.take().into_iter().for_each(StartedRecord::keep);
    let lease = Arc::clone(hold.lease());
    let record = record(&lease, true, payload);
    let warning = DropWarning::new(&lease, true);
    let recording = Recording::start(lease, record, terms.retain);
    Ok(Step::Completing { recording, output, warning, hold })
}

impl<W: Work, C: Check<W::Failure>, J> fmt::Debug for Execution<W, C, J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution")
            .field("resource", self.resource())
            .field("step", &self.name())
            .finish_non_exhaustive()
    }
}

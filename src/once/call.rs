//! One request: takes the key's lock, reads the record, runs the work and records its end.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use pin_project::pin_project;

#[cfg(feature = "http")]
use super::detach::Detach;
use super::{
    Check, Completes, OnceError, UnknownOutcome, Work,
    detach::Attached,
    execution::Execution,
    outcome::OnceOutcome,
    record::StartedRecord,
    telemetry,
    terms::{self, Terms},
};
use crate::{
    error::LockError,
    lock::{
        Acquire, Lock, LockRequest, Redlock,
        records::{self, Asked, QueryAnswers},
    },
    protocol::Record,
    quorum::records::RecordStatus,
    resource::Resource,
    time::{Sleep, Timestamp},
};

/// The future of one request. `J` decides whether an output of the work completes the key.
#[pin_project]
pub(crate) struct OnceCall<W: Work, C: Check<W::Failure>, J> {
    /// `None` once the work runs. Dropped first, so that the record is removed under the lock.
    started_record: Option<StartedRecord>,
    #[pin]
    state: OnceCallState<W, C, J>,
    terms: Terms,
    completion: Option<J>,
    key: Option<RequestKey>,
    #[cfg(feature = "http")]
    detach: Option<Detach<Execution<W, C, J>>>,
}

struct RequestKey {
    redlock: Redlock,
    resource: Resource,
    started_at: Timestamp,
}

#[pin_project(project = OnceCallStateProj)]
#[expect(
    clippy::large_enum_variant,
    reason = "the task's own memory holds the state: boxing costs an allocation"
)]
enum OnceCallState<W: Work, C: Check<W::Failure>, J> {
    Rejected {
        error: LockError,
    },
    Unguarded {
        #[pin]
        work: W::Future,
    },
    Acquiring {
        acquire: Acquire,
        start: Option<(W, C)>,
    },
    /// Another holder has the lock; the work may be done nevertheless.
    ReadingUnlocked {
        asked: Asked,
        refusal: LockError,
    },
    /// Reads the record under the lock.
    Reading {
        asked: Asked,
        /// Waits for every node: of several records, the final one is kept longest.
        is_all: bool,
        start: Option<(Lock, W, C)>,
    },
    /// Too few nodes answered or stored the record; the next round may succeed.
    Pausing {
        sleep: Sleep,
        start: Option<(Lock, W, C)>,
    },
    /// Stores the record that the work has started.
    RecordingStart {
        asked: Asked,
        start: Option<(Lock, W, C)>,
    },
    Executing {
        attached: Attached<W, C, J>,
    },
    Over,
}

/// The result of polling a state.
#[expect(clippy::large_enum_variant, reason = "it is moved into its place at once")]
enum Transition<W: Work, C: Check<W::Failure>, J> {
    State(OnceCallState<W, C, J>),
    /// Starts the check, then the work.
    Begin((Lock, W, C)),
    End(Result<OnceOutcome<W::Success>, OnceError<W::Failure>>),
}

impl<W: Work, C: Check<W::Failure>, J> OnceCall<W, C, J> {
    fn from(
        state: OnceCallState<W, C, J>,
        terms: Terms,
        completion: J,
        key: Option<RequestKey>,
    ) -> Self {
        Self {
            started_record: None,
            state,
            terms,
            completion: Some(completion),
            key,
            #[cfg(feature = "http")]
            detach: None,
        }
    }

    pub(super) fn rejected(error: LockError, completion: J) -> Self {
        Self::from(OnceCallState::Rejected { error }, Terms::DEFAULT, completion, None)
    }

    /// A request without a key.
    pub(super) fn unguarded(work: W::Future, completion: J) -> Self {
        Self::from(OnceCallState::Unguarded { work }, Terms::DEFAULT, completion, None)
    }

    /// `resource` is the result of [`terms::resource`], and `request` a request for its lock.
    pub(super) fn new(
        (redlock, resource, request): (Redlock, Resource, LockRequest),
        terms: Terms,
        (work, check): (W, C),
        completion: J,
    ) -> Self {
        if let Err(error) = terms.check() {
            return Self::rejected(error, completion);
        }
        let acquire = request.acquire();
        let state = OnceCallState::Acquiring { acquire, start: Some((work, check)) };
        let started_at = redlock.now();
        Self::from(state, terms, completion, Some(RequestKey { redlock, resource, started_at }))
    }

    /// Detaches the work if this is dropped while the work runs.
    #[cfg(feature = "http")]
    pub(super) fn detached(self, detach: Option<Detach<Execution<W, C, J>>>) -> Self {
        Self { detach, ..self }
    }

    /// The locked resource: the key with the prefix `once:`. `None` for a request without a key.
    pub(crate) fn resource(&self) -> Option<&Resource> {
        self.key.as_ref().map(|key| &key.resource)
    }

    pub(crate) fn name(&self) -> &'static str {
        match &self.state {
            OnceCallState::Rejected { .. } => "rejected",
            OnceCallState::Unguarded { .. } => "unguarded",
            OnceCallState::Acquiring { .. } => "acquiring",
            OnceCallState::ReadingUnlocked { .. } | OnceCallState::Reading { .. } => "reading",
            OnceCallState::Pausing { .. } => "pausing",
            OnceCallState::RecordingStart { .. } => "recording start",
            OnceCallState::Executing { attached } => attached.name(),
            OnceCallState::Over => "over",
        }
    }
}

impl<W, C, J> Future for OnceCall<W, C, J>
where
    W: Work,
    C: Check<W::Failure>,
    J: Completes<W::Success>,
{
    type Output = Result<OnceOutcome<W::Success>, OnceError<W::Failure>>;

    /// # Panics
    ///
    /// If polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match ready!(self.as_mut().step(cx)) {
                Transition::State(state) => self.as_mut().project().state.set(state),
                Transition::Begin(start) => {
                    let state = self.as_mut().begin(start);
                    self.as_mut().project().state.set(state);
                }
                Transition::End(result) => {
                    let this = self.as_mut().project();
                    // Execution takes the record over; here the work has not started.
                    if let Some(started_record) = this.started_record.take() {
                        started_record.forget();
                    }
                    let mut state = this.state;
                    state.set(OnceCallState::Over);
                    if let Some(key) = this.key {
                        telemetry::ended(&key.resource, &result);
                    }
                    return Poll::Ready(result);
                }
            }
        }
    }
}

impl<W, C, J> OnceCall<W, C, J>
where
    W: Work,
    C: Check<W::Failure>,
    J: Completes<W::Success>,
{
    fn step(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Transition<W, C, J>> {
        let this = self.project();
        let key = || this.key.as_ref().expect("a locked request has a key");
        let read = || key().redlock.read_record(&terms::name(&key().resource));
        Poll::Ready(match this.state.project() {
            OnceCallStateProj::Rejected { error } => Transition::End(Err(error.clone().into())),
            OnceCallStateProj::Unguarded { work } => Transition::End(
                ready!(work.poll(cx)).map(OnceOutcome::Ran).map_err(OnceError::Work),
            ),
            OnceCallStateProj::Acquiring { acquire, start } => {
                match ready!(Pin::new(acquire).poll(cx)) {
                    Ok(lock) => {
                        let (work, check) = start.take().expect("polled after it was ready");
                        let start = Some((lock, work, check));
                        Transition::State(OnceCallState::Reading {
                            asked: read(),
                            is_all: false,
                            start,
                        })
                    }
                    Err(refusal) if matches!(refusal.root(), LockError::Held { .. }) => {
                        Transition::State(OnceCallState::ReadingUnlocked { asked: read(), refusal })
                    }
                    Err(error) => Transition::End(Err(error.into())),
                }
            }
            OnceCallStateProj::ReadingUnlocked { asked, refusal } => {
                let answers = ready!(Pin::new(asked).poll(cx));
                Transition::End(Ok(match records::status(&answers) {
                    RecordStatus::Done { record, remaining }
                        if is_settled(this.completion.as_ref(), &record) =>
                    {
                        OnceOutcome::Done { record, remaining }
                    }
                    // Running work has a record too: that it has started.
                    _ => busy(refusal),
                }))
            }
            OnceCallStateProj::Reading { asked, is_all, start } => {
                let answers = ready!(Pin::new(asked).poll(cx));
                if !*is_all
                    && let RecordStatus::Done { record, .. } = records::status(&answers)
                    && !is_settled(this.completion.as_ref(), &record)
                {
                    let name = terms::name(&key().resource);
                    let asked = key().redlock.read_all_records(&name);
                    let start = start.take();
                    return Poll::Ready(Transition::State(OnceCallState::Reading {
                        asked,
                        is_all: true,
                        start,
                    }));
                }
                let start = start.take().expect("polled after it was ready");
                after_reading(
                    &answers,
                    start,
                    (this.terms.unknown, key().started_at),
                    this.started_record,
                )
            }
            OnceCallStateProj::Pausing { sleep, start } => {
                ready!(Pin::new(sleep).poll(cx));
                Transition::State(OnceCallState::Reading {
                    asked: read(),
                    is_all: false,
                    start: start.take(),
                })
            }
            OnceCallStateProj::RecordingStart { asked, start } => {
                let answers = ready!(Pin::new(asked).poll(cx));
                let start = start.take().expect("polled after it was ready");
                // A node that did not answer before may know of the end.
                if let RecordStatus::Done { record, remaining } = records::status(&answers) {
                    Transition::End(Ok(OnceOutcome::Done { record, remaining }))
                } else if records::is_kept(&answers) || !start.0.is_valid() {
                    Transition::Begin(start)
                } else {
                    this.started_record.take().into_iter().for_each(StartedRecord::forget);
                    too_few(&answers, start, key().started_at)
                }
            }
            OnceCallStateProj::Executing { attached } => {
                Transition::End(ready!(Pin::new(attached).poll(cx)))
            }
            OnceCallStateProj::Over => panic!("polled after it was ready"),
        })
    }

    /// Starts the check and the work.
    fn begin(self: Pin<&mut Self>, start: (Lock, W, C)) -> OnceCallState<W, C, J> {
        let this = self.project();
        let started_record =
            this.started_record.take().unwrap_or_else(|| StartedRecord::unstored(start.0.lease()));
        let completion = this.completion.take().expect("polled after it was ready");
        match Execution::start(start, started_record, *this.terms, completion) {
            Ok(execution) => {
                let attached = Attached::new(execution);
                #[cfg(feature = "http")]
                let attached = attached.detachable(this.detach.and_then(Detach::spawner));
                OnceCallState::Executing { attached }
            }
            Err(error) => OnceCallState::Rejected { error },
        }
    }
}

/// Decides by the record, read under the lock.
fn after_reading<W: Work, C: Check<W::Failure>, J>(
    answers: &QueryAnswers,
    start: (Lock, W, C),
    (unknown, started_at): (UnknownOutcome, Timestamp),
    started_record: &mut Option<StartedRecord>,
) -> Transition<W, C, J> {
    match records::status(answers) {
        RecordStatus::Done { record, remaining } => {
            Transition::End(Ok(OnceOutcome::Done { record, remaining }))
        }
        RecordStatus::Unknown { record, remaining, .. } => Transition::End(Ok(OnceOutcome::Busy {
            retry_after: Some(remaining),
            by: Some(Arc::clone(&record.lease.owner)),
            unknown: true,
        })),
        RecordStatus::TooFew => too_few(answers, start, started_at),
        RecordStatus::Nothing => match (records::reserve(start.0.lease()), unknown) {
            (Err(error), _) => Transition::End(Err(error.into())),
            (Ok(()), UnknownOutcome::Release) => Transition::Begin(start),
            (Ok(()), UnknownOutcome::Hold(hold)) => {
                let (record, asked) = StartedRecord::send(start.0.lease(), hold);
                *started_record = Some(record);
                Transition::State(OnceCallState::RecordingStart { asked, start: Some(start) })
            }
        },
    }
}

/// Pauses before the next round, under the same lock, until the request's wait has passed.
fn too_few<W: Work, C: Check<W::Failure>, J>(
    answers: &QueryAnswers,
    start: (Lock, W, C),
    started_at: Timestamp,
) -> Transition<W, C, J> {
    let lease = start.0.lease();
    let client = lease.client();
    let now = client.now();
    if now >= started_at + lease.wait() || !lease.is_valid() {
        return Transition::End(Err(client.no_quorum(answers).into()));
    }
    let sleep = client.sleep_until(now + client.node_timeout() / 2);
    Transition::State(OnceCallState::Pausing { sleep, start: Some(start) })
}

fn is_settled<T>(completion: Option<&impl Completes<T>>, record: &Record) -> bool {
    completion.is_none_or(|completion| completion.is_settled(&record.payload))
}

fn busy<T>(refusal: &LockError) -> OnceOutcome<T> {
    let (retry_after, by) = match refusal.root() {
        LockError::Held { retry_after, owner, .. } => (*retry_after, owner.clone()),
        _ => (None, None),
    };
    OnceOutcome::Busy { retry_after, by, unknown: false }
}

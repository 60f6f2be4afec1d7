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
    Check, Completes, OnceError, Unknown, Work,
    attached::Attached,
    execution::Execution,
    outcome::Outcome,
    record::StartedRecord,
    state::{Next, State, StateProj},
    telemetry,
    terms::{self, Terms},
};
use crate::{
    error::LockError,
    lock::{
        Core, Lock, LockRequest,
        records::{self, Answers},
    },
    protocol::Record,
    quorum::records::RecordStatus,
    resource::Resource,
    time::Timestamp,
};

/// One request: takes the key's lock, asks whether the work is done, does it, and has that recorded.
///
/// What the work makes is judged by `J`. Whatever else a face does with it belongs into the work.
#[pin_project]
pub(crate) struct OnceCall<W: Work, C: Check<W::Failure>, J> {
    /// Until the work begins. Dropped first: what is to be forgotten is forgotten under the lock.
    started_record: Option<StartedRecord>,
    #[pin]
    state: State<W, C, J>,
    terms: Terms,
    completion: Option<J>,
    key: Option<Key>,
    #[cfg(feature = "http")]
    detach: Option<Detach<Execution<W, C, J>>>,
}

struct Key {
    core: Arc<Core>,
    resource: Resource,
    asked_at: Timestamp,
}

impl<W: Work, C: Check<W::Failure>, J> OnceCall<W, C, J> {
    fn from(state: State<W, C, J>, terms: Terms, completion: J, key: Option<Key>) -> Self {
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
        Self::from(State::Rejected { error }, Terms::DEFAULT, completion, None)
    }

    /// A request that has no key.
    pub(super) fn unguarded(work: W::Future, completion: J) -> Self {
        Self::from(State::Unguarded { work }, Terms::DEFAULT, completion, None)
    }

    /// `resource` is what [`terms::resource`] made of the key, and `request` asks for it.
    pub(super) fn new(
        (core, resource, request): (Arc<Core>, Resource, LockRequest),
        terms: Terms,
        (work, check): (W, C),
        completion: J,
    ) -> Self {
        if let Err(error) = terms.check() {
            return Self::rejected(error, completion);
        }
        let acquire = request.acquire();
        let state = State::Acquiring { acquire, start: Some((work, check)) };
        let asked_at = core.clock().now();
        Self::from(state, terms, completion, Some(Key { core, resource, asked_at }))
    }

    /// Where this is dropped while the work runs, the work goes on by itself.
    #[cfg(feature = "http")]
    pub(super) fn detached(self, detach: Option<Detach<Execution<W, C, J>>>) -> Self {
        Self { detach, ..self }
    }

    /// What is locked, where something is: the key with `once:` before it.
    pub(crate) fn resource(&self) -> Option<&Resource> {
        self.key.as_ref().map(|key| &key.resource)
    }

    pub(crate) fn name(&self) -> &'static str {
        match &self.state {
            State::Rejected { .. } => "rejected",
            State::Unguarded { .. } => "unguarded",
            State::Acquiring { .. } => "acquiring",
            State::Looking { .. } | State::Reading { .. } => "reading",
            State::Pausing { .. } => "pausing",
            State::Marking { .. } => "marking",
            State::Executing { attached } => attached.name(),
            State::Over => "over",
        }
    }
}

impl<W, C, J> Future for OnceCall<W, C, J>
where
    W: Work,
    C: Check<W::Failure>,
    J: Completes<W::Success>,
{
    type Output = Result<Outcome<W::Success>, OnceError<W::Failure>>;

    /// # Panics
    ///
    /// If polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match ready!(self.as_mut().step(cx)) {
                Next::State(state) => self.as_mut().project().state.set(state),
                Next::Begin(start) => {
                    let state = self.as_mut().begin(start);
                    self.as_mut().project().state.set(state);
                }
                Next::End(result) => {
                    let this = self.as_mut().project();
                    // Nothing ran, or it can run again, unless it was said that it is kept.
                    if let Some(started_record) = this.started_record.take() {
                        started_record.forget();
                    }
                    let mut state = this.state;
                    state.set(State::Over);
                    if let Some(key) = this.key {
                        telemetry::ended(&key.resource, &result);
                    }
                    return Poll::Ready(result);
                }
            }
        }
    }
}

const AFTER: &str = "polled after it was ready";

impl<W, C, J> OnceCall<W, C, J>
where
    W: Work,
    C: Check<W::Failure>,
    J: Completes<W::Success>,
{
    fn step(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Next<W, C, J>> {
        let this = self.project();
        let key = || this.key.as_ref().expect("what is locked has a key");
        let read = || records::read(&key().core, &terms::name(&key().resource));
        Poll::Ready(match this.state.project() {
            StateProj::Rejected { error } => Next::End(Err(error.clone().into())),
            StateProj::Unguarded { work } => {
                Next::End(ready!(work.poll(cx)).map(Outcome::Ran).map_err(OnceError::Work))
            }
            StateProj::Acquiring { acquire, start } => match ready!(Pin::new(acquire).poll(cx)) {
                Ok(lock) => {
                    let (work, check) = start.take().expect(AFTER);
                    let start = Some((lock, work, check));
                    Next::State(State::Reading { asked: read(), is_all: false, start })
                }
                Err(refusal) if matches!(refusal.root(), LockError::Held { .. }) => {
                    Next::State(State::Looking { asked: read(), refusal })
                }
                Err(error) => Next::End(Err(error.into())),
            },
            StateProj::Looking { asked, refusal } => {
                let answers = ready!(Pin::new(asked).poll(cx));
                Next::End(Ok(match records::status(&answers) {
                    RecordStatus::Done { record, remaining }
                        if is_settled(this.completion.as_ref(), &record) =>
                    {
                        Outcome::Done { record, remaining }
                    }
                    // Whose work runs has a record that it has begun.
                    _ => busy(refusal),
                }))
            }
            StateProj::Reading { asked, is_all, start } => {
                let answers = ready!(Pin::new(asked).poll(cx));
                if !*is_all
                    && let RecordStatus::Done { record, .. } = records::status(&answers)
                    && !is_settled(this.completion.as_ref(), &record)
                {
                    let name = terms::name(&key().resource);
                    let asked = records::read_all(&key().core, &name);
                    let start = start.take();
                    return Poll::Ready(Next::State(State::Reading { asked, is_all: true, start }));
                }
                let start = start.take().expect(AFTER);
                after_reading(
                    &answers,
                    start,
                    (this.terms.unknown, key().asked_at),
                    this.started_record,
                )
            }
            StateProj::Pausing { sleep, start } => {
                ready!(Pin::new(sleep).poll(cx));
                Next::State(State::Reading { asked: read(), is_all: false, start: start.take() })
            }
            StateProj::Marking { asked, start } => {
                let answers = ready!(Pin::new(asked).poll(cx));
                let start = start.take().expect(AFTER);
                // By a node that was silent before.
                if let RecordStatus::Done { record, remaining } = records::status(&answers) {
                    Next::End(Ok(Outcome::Done { record, remaining }))
                } else if records::is_kept(&answers) || !start.0.is_valid() {
                    Next::Begin(start)
                } else {
                    this.started_record.take().into_iter().for_each(StartedRecord::forget);
                    too_few(&answers, start, key().asked_at)
                }
            }
            StateProj::Executing { attached } => Next::End(ready!(Pin::new(attached).poll(cx))),
            StateProj::Over => panic!("{AFTER}"),
        })
    }

    /// Starts the check and the work.
    fn begin(self: Pin<&mut Self>, start: (Lock, W, C)) -> State<W, C, J> {
        let this = self.project();
        let started_record =
            this.started_record.take().unwrap_or_else(|| StartedRecord::unkept(start.0.lease()));
        let completion = this.completion.take().expect(AFTER);
        match Execution::start(start, started_record, *this.terms, completion) {
            Ok(execution) => {
                let attached = Attached::new(execution);
                #[cfg(feature = "http")]
                let attached = attached.detachable(this.detach.and_then(Detach::away));
                State::Executing { attached }
            }
            Err(error) => State::Rejected { error },
        }
    }
}

/// Under the lock: what follows from what is recorded.
fn after_reading<W: Work, C: Check<W::Failure>, J>(
    answers: &Answers,
    start: (Lock, W, C),
    (unknown, asked_at): (Unknown, Timestamp),
    started_record: &mut Option<StartedRecord>,
) -> Next<W, C, J> {
    match records::status(answers) {
        RecordStatus::Done { record, remaining } => {
            Next::End(Ok(Outcome::Done { record, remaining }))
        }
        RecordStatus::Unknown { record, remaining, .. } => Next::End(Ok(Outcome::Busy {
            retry_after: Some(remaining),
            by: Some(Arc::clone(&record.lease.owner)),
            unknown: true,
        })),
        RecordStatus::TooFew => too_few(answers, start, asked_at),
        RecordStatus::Nothing => match (records::reserve(start.0.lease()), unknown) {
            (Err(error), _) => Next::End(Err(error.into())),
            (Ok(()), Unknown::Release) => Next::Begin(start),
            (Ok(()), Unknown::Hold(hold)) => {
                let (set, asked) = StartedRecord::set(start.0.lease(), hold);
                *started_record = Some(set);
                Next::State(State::Marking { asked, start: Some(start) })
            }
        },
    }
}

/// Too few nodes answered: they are asked again, under the same lock, for as long as the request
/// waits for a lock.
fn too_few<W: Work, C: Check<W::Failure>, J>(
    answers: &Answers,
    start: (Lock, W, C),
    asked_at: Timestamp,
) -> Next<W, C, J> {
    let lease = start.0.lease();
    let core = lease.core();
    let now = core.clock().now();
    if now >= asked_at + lease.wait() || !lease.is_valid() {
        return Next::End(Err(records::no_quorum(core, answers).into()));
    }
    let sleep = core.timers.sleep_until(now + core.settings.node_timeout / 2);
    Next::State(State::Pausing { sleep, start: Some(start) })
}

fn is_settled<T>(completion: Option<&impl Completes<T>>, record: &Record) -> bool {
    completion.is_none_or(|completion| completion.is_settled(&record.payload))
}

fn busy<T>(refusal: &LockError) -> Outcome<T> {
    let (retry_after, by) = match refusal.root() {
        LockError::Held { retry_after, owner, .. } => (*retry_after, owner.clone()),
        _ => (None, None),
    };
    Outcome::Busy { retry_after, by, unknown: false }
}

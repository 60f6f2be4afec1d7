use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use pin_project::pin_project;

use super::{
    Check, Completes, OnceError, Unknown, Work,
    marker::{Marker, record},
    notes,
    outcome::Outcome,
    recording::Recording,
    state::{Next, State, StateProj},
    terms::{self, Terms},
    work::Checked,
};
use crate::{
    error::LockError,
    guard::{Guarded, Hold},
    lock::{
        Core, Lock, LockRequest,
        records::{self, Answers},
    },
    quorum::records::Standing,
    resource::Resource,
};

/// One request: takes the key's lock, asks whether the work is done, does it, and has that recorded.
///
/// What the work makes is judged by `J`. Whatever else a face does with it belongs into the work.
#[pin_project]
pub(crate) struct OnceCall<W: Work, C: Check<W::Failure>, J> {
    /// Dropped first: what is to be forgotten is forgotten under the lock.
    marker: Option<Marker>,
    #[pin]
    state: State<W, C>,
    terms: Terms,
    judge: J,
    key: Option<(Arc<Core>, Resource)>,
}

impl<W: Work, C: Check<W::Failure>, J> OnceCall<W, C, J> {
    pub(super) fn rejected(error: LockError, judge: J) -> Self {
        let state = State::Rejected { error };
        Self { marker: None, state, terms: Terms::DEFAULT, judge, key: None }
    }

    /// A request that has no key.
    pub(super) fn unguarded(work: W::Future, judge: J) -> Self {
        let state = State::Unguarded { work };
        Self { marker: None, state, terms: Terms::DEFAULT, judge, key: None }
    }

    /// `resource` is what [`terms::resource`] made of the key, and `request` asks for it.
    pub(super) fn new(
        (core, resource, request): (Arc<Core>, Resource, LockRequest),
        terms: Terms,
        (work, check): (W, C),
        judge: J,
    ) -> Self {
        if let Err(error) = terms.check() {
            return Self::rejected(error, judge);
        }
        let acquire = request.into_future();
        let state = State::Acquiring { acquire, start: Some((work, check)) };
        Self { marker: None, state, terms, judge, key: Some((core, resource)) }
    }

    /// What is locked, where something is: the key with `once:` before it.
    pub(crate) fn resource(&self) -> Option<&Resource> {
        self.key.as_ref().map(|(_, resource)| resource)
    }

    pub(crate) const fn name(&self) -> &'static str {
        match self.state {
            State::Rejected { .. } => "rejected",
            State::Unguarded { .. } => "unguarded",
            State::Acquiring { .. } => "acquiring",
            State::Looking { .. } | State::Reading { .. } => "reading",
            State::Marking { .. } => "marking",
            State::Running { .. } => "running",
            State::Completing { .. } => "completing",
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
                Next::End(result) => {
                    let this = self.as_mut().project();
                    // Nothing ran, or it can run again, unless it was said that it is kept.
                    if let Some(marker) = this.marker.take() {
                        marker.forget();
                    }
                    let mut state = this.state;
                    state.set(State::Over);
                    if let Some((_, resource)) = this.key {
                        notes::ended(resource, &result);
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
    fn step(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Next<W, C>> {
        const AFTER: &str = "polled after it was ready";
        let this = self.project();
        let read = |key: &Option<(Arc<Core>, Resource)>| {
            let (core, resource) = key.as_ref().expect("what is locked has a key");
            records::read(core, &terms::name(resource))
        };
        Poll::Ready(match this.state.project() {
            StateProj::Rejected { error } => Next::End(Err(error.clone().into())),
            StateProj::Unguarded { work } => {
                Next::End(ready!(work.poll(cx)).map(Outcome::Ran).map_err(OnceError::Work))
            }
            StateProj::Acquiring { acquire, start } => match ready!(Pin::new(acquire).poll(cx)) {
                Ok(lock) => {
                    let (work, check) = start.take().expect(AFTER);
                    let start = Some((lock, work, check));
                    Next::State(State::Reading { asked: read(this.key), start })
                }
                Err(refusal) if matches!(refusal.root(), LockError::Held { .. }) => {
                    Next::State(State::Looking { asked: read(this.key), refusal })
                }
                Err(error) => Next::End(Err(error.into())),
            },
            StateProj::Looking { asked, refusal } => {
                let answers = ready!(Pin::new(asked).poll(cx));
                Next::End(Ok(match records::standing(&answers) {
                    Standing::Done { record, remaining } => Outcome::Done { record, remaining },
                    // Whose work runs has a record that it has begun.
                    _ => busy(refusal),
                }))
            }
            StateProj::Reading { asked, start } => {
                let answers = ready!(Pin::new(asked).poll(cx));
                let start = start.take().expect(AFTER);
                after_reading(&answers, start, this.terms.unknown, this.marker)
            }
            StateProj::Marking { asked, start } => {
                let answers = ready!(Pin::new(asked).poll(cx));
                let (lock, work, check) = start.take().expect(AFTER);
                // By a node that was silent before.
                if let Standing::Done { record, remaining } = records::standing(&answers) {
                    Next::End(Ok(Outcome::Done { record, remaining }))
                } else if records::is_kept(&answers) || !lock.is_valid() {
                    begin((lock, work, check), this.marker)
                } else {
                    Next::End(Err(records::no_quorum(lock.lease().core(), &answers).into()))
                }
            }
            StateProj::Running { guarded } => match ready!(guarded.poll(cx)) {
                Ok((Ok(output), hold)) => {
                    after_work(output, hold, this.judge, *this.terms, this.marker)
                }
                Ok((Err(error), _hold)) => {
                    // Before the lock is given back.
                    this.marker.take().into_iter().for_each(Marker::forget);
                    Next::End(Err(OnceError::Work(error)))
                }
                Err(lost) => {
                    this.marker.take().into_iter().for_each(Marker::keep);
                    Next::End(Err(lost.into()))
                }
            },
            StateProj::Completing { recording, output, hold } => {
                let recorded = ready!(Pin::new(&mut *recording).poll(cx));
                Next::End(Ok(match (output.take(), recorded) {
                    (Some(output), Ok(())) => Outcome::Ran(output),
                    (Some(output), Err(error)) => {
                        let token = hold.lease().token();
                        notes::unrecorded(hold.lease().resource(), token.get(), &error);
                        Outcome::Unrecorded(output, error)
                    }
                    // The check asks again the next time.
                    (None, _) => Outcome::Done {
                        record: Arc::clone(recording.record()),
                        remaining: recording.retain(),
                    },
                }))
            }
            StateProj::Over => panic!("{AFTER}"),
        })
    }
}

/// Under the lock: what follows from what is recorded.
fn after_reading<W: Work, C: Check<W::Failure>>(
    answers: &Answers,
    (lock, work, check): (Lock, W, C),
    unknown: Unknown,
    marker: &mut Option<Marker>,
) -> Next<W, C> {
    match records::standing(answers) {
        Standing::Done { record, remaining } => Next::End(Ok(Outcome::Done { record, remaining })),
        Standing::Unknown { record, remaining, .. } => Next::End(Ok(Outcome::Busy {
            retry_after: Some(remaining),
            by: Some(Arc::clone(&record.lease.owner)),
            unknown: true,
        })),
        Standing::TooFew => Next::End(Err(records::no_quorum(lock.lease().core(), answers).into())),
        Standing::Nothing => match unknown {
            Unknown::Release => begin((lock, work, check), marker),
            Unknown::Hold(hold) => {
                let (set, asked) = Marker::set(lock.lease(), hold);
                *marker = Some(set);
                Next::State(State::Marking { asked, start: Some((lock, work, check)) })
            }
        },
    }
}

/// What follows from what the work made; `None`: it was done before.
fn after_work<W: Work, C: Check<W::Failure>>(
    output: Option<W::Success>,
    hold: Hold,
    judge: &impl Completes<W::Success>,
    terms: Terms,
    marker: &mut Option<Marker>,
) -> Next<W, C> {
    let payload = match output {
        Some(output) if !judge.completes(&output) => {
            marker.take().into_iter().for_each(Marker::forget);
            return Next::End(Ok(Outcome::Ran(output)));
        }
        Some(ref output) => judge.payload(output),
        None => Arc::from([]),
    };
    // From here the work is done, whoever is told of it.
    marker.take().into_iter().for_each(Marker::keep);
    let lease = Arc::clone(hold.lease());
    let record = record(&lease, true, payload);
    let recording = Recording::start(lease, record, terms.retain);
    Next::State(State::Completing { recording, output, hold })
}

/// Starts the check and the work, unless the lock's validity is over.
fn begin<W: Work, C: Check<W::Failure>>(
    (lock, work, check): (Lock, W, C),
    marker: &mut Option<Marker>,
) -> Next<W, C> {
    let make = |context| {
        // Where this panics, it is forgotten under the lock.
        let set = marker.take();
        let checked = Checked::new(work, check, context);
        *marker = set;
        checked
    };
    match Guarded::start(lock, make) {
        Ok(guarded) => Next::State(State::Running { guarded }),
        Err(error) => Next::End(Err(error.into())),
    }
}

fn busy<T>(refusal: &LockError) -> Outcome<T> {
    let (retry_after, by) = match refusal.root() {
        LockError::Held { retry_after, owner } => (*retry_after, owner.clone()),
        _ => (None, None),
    };
    Outcome::Busy { retry_after, by, unknown: false }
}

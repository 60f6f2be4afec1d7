use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use http::{Request, Response, response::Parts};
use http_body::Body;
use pin_project::pin_project;
use tower_service::Service;

use super::{
    answered::Answered,
    record::{First, Kept},
    statuses::KeptStatuses,
};
use crate::{
    guard::LockContext,
    once::{
        Completes, Fingerprint, Intact, ReadBody, ResponseStore, StoreError, StoredHeaders,
        StoredResponse, Work,
        http::{CompletesHttp, completion::CompletionRules, future::HttpCall},
        work::Verdict,
    },
};

/// A request that is given to the service, and whose response is kept.
pub(super) struct KeepingCall<S, B: Body, C, St> {
    pub(super) call: HttpCall<S, Intact<B>>,
    pub(super) keep: Keep<C, St>,
}

/// What a response is kept for, and how.
pub(super) struct Keep<C, St> {
    pub(super) rules: CompletionRules<C>,
    pub(super) kept: KeptStatuses,
    pub(super) fingerprint: Fingerprint,
    pub(super) limit: usize,
    pub(super) headers: StoredHeaders,
    pub(super) retain: Duration,
    pub(super) store: Option<Store<St>>,
}

/// A store, and the response's key there.
pub(super) struct Store<St> {
    pub(super) store: Arc<St>,
    pub(super) key: Arc<str>,
}

impl<S, B, A, C, St> Work for KeepingCall<S, B, C, St>
where
    S: Service<Request<Intact<B>>, Response = Response<A>>,
    B: Body,
    A: Body,
    C: CompletesHttp<A>,
    St: ResponseStore,
{
    type Future = Keeping<S::Future, A, C, St>;
    type Success = Made<A>;
    type Failure = S::Error;

    fn begin(self, context: LockContext) -> Self::Future {
        let keep = Some((self.keep, context.clone()));
        Keeping { state: State::Calling { future: self.call.begin(context), keep } }
    }
}

/// A response to be sent, what becomes of its key, and what is recorded of it where that is done.
#[derive(Debug)]
pub(super) struct Made<A: Body> {
    pub(super) response: Response<Intact<A>>,
    verdict: Verdict,
    record: Option<Arc<[u8]>>,
}

impl<A: Body> Made<A> {
    const fn done(response: Response<Intact<A>>, record: Option<Arc<[u8]>>) -> Self {
        Self { response, verdict: Verdict::Done, record }
    }
}

/// The rule for that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recorded;

impl<A: Body> Completes<Made<A>> for Recorded {
    fn completes(&self, made: &Made<A>) -> bool {
        made.verdict == Verdict::Done
    }

    fn verdict(&self, made: &Made<A>) -> Verdict {
        made.verdict
    }

    fn payload(&self, made: &Made<A>) -> Arc<[u8]> {
        made.record.clone().unwrap_or_default()
    }

    fn is_settled(&self, payload: &[u8]) -> bool {
        First::decode(payload).is_none_or(|first| !first.is_pending)
    }
}

/// Calls the service; reads the response's body, if it is to be kept; puts it into the store, if
/// there is one. What takes longer than the lock lasts is left: the response goes out all the same.
#[pin_project]
pub(super) struct Keeping<F, A: Body, C, St: ResponseStore> {
    #[pin]
    state: State<F, A, C, St>,
}

#[allow(clippy::large_enum_variant, reason = "most requests read a body")]
#[pin_project(project = StateProj)]
enum State<F, A: Body, C, St: ResponseStore> {
    Calling {
        #[pin]
        future: F,
        /// `None`: a request without a key.
        keep: Option<(Keep<C, St>, LockContext)>,
    },
    Reading {
        read: ReadBody<A>,
        answered: Option<(Parts, Keep<C, St>, Answered)>,
    },
    Putting {
        #[pin]
        put: St::Put,
        answered: Option<(Response<Intact<A>>, Answered)>,
        key: Arc<str>,
    },
    Over,
}

impl<F, A: Body, C, St: ResponseStore> Keeping<F, A, C, St> {
    /// Keeps nothing.
    pub(super) const fn unguarded(future: F) -> Self {
        Self { state: State::Calling { future, keep: None } }
    }
}

impl<F, E, A, C, St> Future for Keeping<F, A, C, St>
where
    F: Future<Output = Result<Response<A>, E>>,
    A: Body,
    C: CompletesHttp<A>,
    St: ResponseStore,
{
    type Output = Result<Made<A>, E>;

    /// # Panics
    ///
    /// If polled again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        const AFTER: &str = "polled after it was ready";
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                StateProj::Calling { future, keep } => {
                    let response = ready!(future.poll(cx))?;
                    let verdict = keep.as_ref().map_or(Verdict::Free, |(keep, _)| {
                        keep.rules.verdict(&response, &|status| keep.kept.contains(status))
                    });
                    match keep.take() {
                        Some((keep, context)) if verdict == Verdict::Done => {
                            let (parts, body) = response.into_parts();
                            let (fingerprint, retain) = (keep.fingerprint, keep.retain);
                            let response = Kept::Not(parts.status);
                            let first = First { fingerprint, response, is_pending: false };
                            let answered = Answered::new(context, retain, first);
                            let rest = keep.limit.saturating_sub(keep.headers.size(&parts.headers));
                            let read = ReadBody::new(&parts.headers, body, rest);
                            let answered = Some((parts, keep, answered));
                            state.set(State::Reading { read, answered });
                        }
                        _ => {
                            state.set(State::Over);
                            let response = response.map(Intact::untouched);
                            return Poll::Ready(Ok(Made { response, verdict, record: None }));
                        }
                    }
                }
                StateProj::Reading { read, answered } => {
                    let body = match Pin::new(&mut *read).poll(cx) {
                        Poll::Ready(body) => body,
                        Poll::Pending => {
                            let (_, _, answer) = answered.as_mut().expect(AFTER);
                            ready!(answer.poll_stop(cx));
                            answer.is_late();
                            Err(read.stop())
                        }
                    };
                    let (parts, keep, mut answer) = answered.take().expect(AFTER);
                    let kept = match body {
                        Ok(body) => {
                            let data = body.data().clone();
                            let kept = StoredResponse::new(&parts, data, &keep.headers);
                            let response = Response::from_parts(parts, Intact::from(body));
                            (response, Some(kept).filter(|kept| kept.size() <= keep.limit))
                        }
                        // The handler has done what it says all the same.
                        Err(incomplete) => {
                            (Response::from_parts(parts, incomplete.into_body()), None)
                        }
                    };
                    match (kept, keep.store) {
                        ((response, Some(kept)), Some(Store { store, key })) => {
                            let put = store.put(&key, Arc::new(kept), keep.retain, answer.token());
                            answer.is_put();
                            let answered = Some((response, answer));
                            state.set(State::Putting { put, answered, key });
                        }
                        ((response, kept), _) => {
                            state.set(State::Over);
                            let record = answer.finish(kept.map(Kept::Here));
                            return Poll::Ready(Ok(Made::done(response, record)));
                        }
                    }
                }
                StateProj::Putting { put, answered, key } => {
                    let put = put.poll(cx);
                    if put.is_pending() {
                        let (_, answer) = answered.as_mut().expect(AFTER);
                        ready!(answer.poll_stop(cx));
                        answer.is_late();
                    }
                    let (response, answer) = answered.take().expect(AFTER);
                    // After an error it may be there all the same: the token will tell.
                    if let Poll::Ready(Err(error)) = put {
                        not_put(key, &error);
                    }
                    let record = answer.finish(None);
                    state.set(State::Over);
                    return Poll::Ready(Ok(Made::done(response, record)));
                }
                StateProj::Over => panic!("{AFTER}"),
            }
        }
    }
}

/// Whoever operates this has to see to the store.
fn not_put(key: &str, error: &StoreError) {
    crate::log::warn!(
        key, error = %error.cause(),
        "a response could not be put into the store: if it is not there, whoever repeats the request \
         is told that it is done, without the response"
    );
}

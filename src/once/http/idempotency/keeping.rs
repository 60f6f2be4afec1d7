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
    first::{First, Kept},
    statuses::is_final,
};
use crate::{
    guard::LockContext,
    once::{
        Completes, Fingerprint, Intact, ReadBody, ResponseStore, StoreError, StoredHeaders,
        StoredResponse, Work,
        http::{CompletesHttp, call::HttpCall},
    },
    token::FencingToken,
};

/// A request that is given to the service, and whose response is kept.
pub(super) struct KeepingCall<S, B: Body, C, St> {
    pub(super) call: HttpCall<S, Intact<B>>,
    pub(super) keep: Keep<C, St>,
}

/// What a response is kept for, and how.
pub(super) struct Keep<C, St> {
    pub(super) complete: C,
    pub(super) fingerprint: Fingerprint,
    pub(super) limit: usize,
    pub(super) headers: StoredHeaders,
    pub(super) store: Option<Store<St>>,
}

/// A store, and how a response is put there.
pub(super) struct Store<St> {
    pub(super) store: Arc<St>,
    pub(super) key: Arc<str>,
    pub(super) retain: Duration,
}

impl<S, B, A, C, St> Work for KeepingCall<S, B, C, St>
where
    S: Service<Request<Intact<B>>, Response = Response<A>>,
    B: Body,
    A: Body + Unpin,
    C: CompletesHttp<A>,
    St: ResponseStore,
{
    type Future = Keeping<S::Future, A, C, St>;
    type Success = Made<A>;
    type Failure = S::Error;

    fn begin(self, context: LockContext) -> Self::Future {
        let keep = Some((self.keep, context.fencing_token()));
        Keeping { state: State::Calling { future: self.call.begin(context), keep } }
    }
}

/// A response to be sent, and what is to be recorded of it: nothing where the key is to be free.
#[derive(Debug)]
pub(super) struct Made<A: Body> {
    pub(super) response: Response<Intact<A>>,
    record: Option<Arc<[u8]>>,
}

/// The judge of that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recorded;

impl<A: Body> Completes<Made<A>> for Recorded {
    fn completes(&self, made: &Made<A>) -> bool {
        made.record.is_some()
    }

    fn payload(&self, made: &Made<A>) -> Arc<[u8]> {
        made.record.clone().unwrap_or_default()
    }
}

/// Calls the service; reads the response's body, if it is to be kept; puts it into the store, if
/// there is one.
#[pin_project]
pub(super) struct Keeping<F, A: Body, C, St: ResponseStore> {
    #[pin]
    state: State<F, A, C, St>,
}

#[pin_project(project = StateProj)]
enum State<F, A: Body, C, St: ResponseStore> {
    Calling {
        #[pin]
        future: F,
        /// `None`: a request without a key.
        keep: Option<(Keep<C, St>, FencingToken)>,
    },
    Reading {
        read: ReadBody<A>,
        parts: Option<Parts>,
        keep: Option<(Keep<C, St>, FencingToken)>,
    },
    Putting {
        #[pin]
        put: St::Put,
        response: Option<Response<Intact<A>>>,
        fingerprint: Fingerprint,
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
    A: Body + Unpin,
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
                    match keep.take() {
                        Some((keep, token)) if keep.complete.completes(&response, is_final) => {
                            let (parts, body) = response.into_parts();
                            let read = ReadBody::new(&parts.headers, body, keep.limit);
                            let (parts, keep) = (Some(parts), Some((keep, token)));
                            state.set(State::Reading { read, parts, keep });
                        }
                        _ => {
                            state.set(State::Over);
                            let response = response.map(Intact::untouched);
                            return Poll::Ready(Ok(Made { response, record: None }));
                        }
                    }
                }
                StateProj::Reading { read, parts, keep } => {
                    let body = ready!(Pin::new(read).poll(cx));
                    let parts = parts.take().expect(AFTER);
                    let (keep, token) = keep.take().expect(AFTER);
                    let fingerprint = keep.fingerprint;
                    let status = parts.status;
                    let (body, response) = match body {
                        Ok(body) => {
                            let data = body.data().clone();
                            let kept = StoredResponse::new(&parts, data, &keep.headers);
                            (Intact::from(body), Ok(kept))
                        }
                        // The handler has done what it says all the same.
                        Err(incomplete) => (incomplete.into_body(), Err(Kept::Not(status))),
                    };
                    let made = Response::from_parts(parts, body);
                    let kept = match (response, keep.store) {
                        (Ok(kept), Some(Store { store, key, retain })) => {
                            let put = store.put(&key, Arc::new(kept), retain, token);
                            let response = Some(made);
                            state.set(State::Putting { put, response, fingerprint, key });
                            continue;
                        }
                        (Ok(kept), None) => Kept::Here(kept),
                        (Err(not), _) => not,
                    };
                    state.set(State::Over);
                    return Poll::Ready(Ok(made_of(made, fingerprint, kept)));
                }
                StateProj::Putting { put, response, fingerprint, key } => {
                    let put = ready!(put.poll(cx));
                    let (response, fingerprint) = (response.take().expect(AFTER), *fingerprint);
                    let status = response.status();
                    let kept = match put {
                        Ok(()) => Kept::InStore(status),
                        Err(error) => {
                            not_put(key, &error);
                            Kept::Not(status)
                        }
                    };
                    state.set(State::Over);
                    return Poll::Ready(Ok(made_of(response, fingerprint, kept)));
                }
                StateProj::Over => panic!("{AFTER}"),
            }
        }
    }
}

fn made_of<A: Body>(
    response: Response<Intact<A>>,
    fingerprint: Fingerprint,
    kept: Kept,
) -> Made<A> {
    let record = First { fingerprint, response: kept }.encode();
    Made { response, record: Some(record) }
}

/// Whoever operates this has to see to the store.
fn not_put(key: &str, error: &StoreError) {
    tracing::warn!(
        key, %error,
        "a response could not be put into the store: whoever repeats the request is told that it is \
         done, without the response"
    );
}

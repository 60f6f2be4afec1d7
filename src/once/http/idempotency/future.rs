use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response, request::Parts};
use http_body::Body;
use pin_project::pin_project;
use tower_service::Service;

use super::{
    Idempotency,
    accept_encoding::AcceptEncoding,
    capture::{Keep, Keeping, KeepingCall, Recorded, Store},
    replay::{Again, Fetching, NotAgain, again},
};
use crate::{
    error::LockError,
    key::RequestHead,
    layer::token_header::TokenHeader,
    lock::HeldBytes,
    once::{
        Fingerprint, Intact, OnceError, OnceRequest, ReadBody, ResponseStore, Unchecked, WholeBody,
        call::OnceCall,
        detach::Detach,
        http::{
            CompletesHttp, OnReject, Refused,
            by_body::refused,
            completion::CompletionRules,
            future::HttpCall,
            reject::{reject, reject_busy},
        },
        outcome::OnceOutcome,
        service::begin,
    },
    resource::Resource,
};

/// The future of a request behind [`OnceLayer::idempotency`](crate::OnceLayer::idempotency): reads
/// the body, then runs the request or finds what it was answered.
///
/// # Cancel safety
///
/// Dropping it before the service was called drops the body, or gives the key back. After that the
/// service runs to its end, and its response is kept, unless
/// [`detached`](crate::OnceLayer::detached) says something else.
///
/// # Panics
///
/// If polled again after it was ready, and where the service panics: its outcome is unknown then, see
/// [`Unknown`](crate::Unknown).
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct IdempotencyFuture<S, B, A, C, R, St>
where
    S: Service<Request<Intact<B>>, Response = Response<A>>,
    B: Body,
    A: Body,
    C: CompletesHttp<A>,
    St: ResponseStore,
{
    #[pin]
    state: State<S, B, A, C, St>,
    accepts: AcceptEncoding,
    on_reject: R,
}

type Call<S, B, C, St> = OnceCall<KeepingCall<S, B, C, St>, Unchecked, Recorded>;

#[pin_project(project = StateProj)]
#[expect(
    clippy::large_enum_variant,
    reason = "what a task keeps in its own memory need not be allocated once more"
)]
enum State<S, B, A, C, St>
where
    S: Service<Request<Intact<B>>, Response = Response<A>>,
    B: Body,
    A: Body,
    C: CompletesHttp<A>,
    St: ResponseStore,
{
    Reading {
        read: ReadBody<B>,
        start: Option<Start<S, C, St>>,
    },
    Calling {
        #[pin]
        call: Call<S, B, C, St>,
        fingerprint: Option<Fingerprint>,
        store: Option<(Arc<St>, Arc<str>)>,
    },
    Fetching {
        #[pin]
        fetching: Fetching<St>,
        resource: Option<Resource>,
    },
}

/// A request with a key whose body is read.
pub(super) struct Start<S, C, St> {
    /// It is ready.
    pub(super) service: S,
    pub(super) parts: Parts,
    pub(super) asked: OnceRequest,
    pub(super) key: Arc<str>,
    pub(super) rules: CompletionRules<C>,
    pub(super) token_header: TokenHeader,
    pub(super) layer: Arc<str>,
    pub(super) detached: bool,
    pub(super) mode: Idempotency<St>,
}

impl<S, B, A, C, R, St> IdempotencyFuture<S, B, A, C, R, St>
where
    S: Service<Request<Intact<B>>, Response = Response<A>>,
    B: Body,
    A: Body,
    C: CompletesHttp<A>,
    St: ResponseStore,
{
    pub(super) fn reading(read: ReadBody<B>, start: Start<S, C, St>, on_reject: R) -> Self {
        let state = State::Reading { read, start: Some(start) };
        Self { state, accepts: AcceptEncoding::default(), on_reject }
    }

    /// A request that needs no key.
    pub(super) fn unguarded(future: S::Future, on_reject: R) -> Self {
        Self::calling(OnceCall::unguarded(Keeping::unguarded(future), Recorded), on_reject)
    }

    pub(super) fn rejected(error: LockError, on_reject: R) -> Self {
        Self::calling(OnceCall::rejected(error, Recorded), on_reject)
    }

    fn calling(call: Call<S, B, C, St>, on_reject: R) -> Self {
        let state = State::Calling { call, fingerprint: None, store: None };
        Self { state, accepts: AcceptEncoding::default(), on_reject }
    }
}

impl<S, B, A, C, R, St> Future for IdempotencyFuture<S, B, A, C, R, St>
where
    S: Service<Request<Intact<B>>, Response = Response<A>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Body<Error: Send> + Send + 'static,
    A: Body<Error: Send> + Send + 'static,
    C: CompletesHttp<A> + Send + 'static,
    R: OnReject,
    St: ResponseStore,
{
    type Output = Result<Response<Intact<A>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let on_reject = &*this.on_reject;
        let answer = loop {
            match this.state.as_mut().project() {
                StateProj::Reading { read, start } => {
                    let body = ready!(Pin::new(&mut *read).poll(cx));
                    let held = read.take_held();
                    let mut start = start.take().expect("polled after it was ready");
                    match body {
                        Ok(body) => {
                            // Before the head is changed: headers that it loses may count.
                            let fingerprint = start.fingerprint(&body);
                            let headers = &mut start.parts.headers;
                            *this.accepts = AcceptEncoding::ask_for_plain(headers);
                            this.state.set(start.call(body, fingerprint, held));
                        }
                        Err(incomplete) => break reject(on_reject, refused(&incomplete), None),
                    }
                }
                StateProj::Calling { mut call, fingerprint, store } => {
                    let ended = ready!(call.as_mut().poll(cx));
                    let resource = call.resource();
                    break match ended {
                        Ok(OnceOutcome::Ran(made) | OnceOutcome::Unrecorded(made, _)) => {
                            return Poll::Ready(Ok(made.response));
                        }
                        Ok(OnceOutcome::Done { record, .. }) => {
                            let fingerprint = fingerprint.expect("what has a key was read");
                            match again(&record, fingerprint, store.as_ref()) {
                                Ok(again) => answer(again, this.accepts, on_reject, resource),
                                Err(fetching) => {
                                    let resource = resource.cloned();
                                    this.state.set(State::Fetching { fetching, resource });
                                    continue;
                                }
                            }
                        }
                        Ok(OnceOutcome::Busy { retry_after, by, unknown }) => {
                            reject_busy(on_reject, (retry_after, by.as_deref(), unknown), resource)
                        }
                        Err(OnceError::Work(error)) => return Poll::Ready(Err(error)),
                        Err(OnceError::Lock(error)) => {
                            reject(on_reject, Refused::Lock(&error), resource)
                        }
                    };
                }
                StateProj::Fetching { fetching, resource } => {
                    let again = ready!(fetching.poll(cx));
                    break answer(again, this.accepts, on_reject, resource.as_ref());
                }
            }
        };
        Poll::Ready(Ok(answer.map(|body| WholeBody::from(body).into())))
    }
}

fn answer(
    again: Again,
    accepts: &AcceptEncoding,
    on_reject: &impl OnReject,
    resource: Option<&Resource>,
) -> Response<Bytes> {
    let again = match again {
        Ok(answer) if !accepts.accepts(answer.headers()) => Err(NotAgain::NotAcceptable),
        again => again,
    };
    again.unwrap_or_else(|not| reject(on_reject, not.reason(), resource))
}

impl<S, C, St> Start<S, C, St> {
    fn fingerprint(&self, body: &WholeBody) -> Fingerprint {
        self.mode.same.fingerprint(&RequestHead::from(&self.parts), body.data())
    }

    /// The body was read.
    fn call<B, A>(
        self,
        body: WholeBody,
        fingerprint: Fingerprint,
        held: Option<HeldBytes>,
    ) -> State<S, B, A, C, St>
    where
        S: Service<Request<Intact<B>>, Response = Response<A>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Send + 'static,
        B: Body<Error: Send> + Send + 'static,
        A: Body<Error: Send> + Send + 'static,
        C: CompletesHttp<A> + Send + 'static,
        St: ResponseStore,
    {
        let Self { service, parts, asked, key, rules, token_header, layer, detached, mode } = self;
        let Idempotency { response_limit: limit, headers, kept, store, .. } = mode;
        let store = store.map(|store| (store, key));
        let put = store
            .as_ref()
            .map(|(store, key)| Store { store: Arc::clone(store), key: Arc::clone(key) });
        let retain = asked.terms.retain;
        let request = Request::from_parts(parts, Intact::from(body).holding(held));
        let call = KeepingCall {
            call: HttpCall::new(service, request, token_header, layer),
            keep: Keep { rules, kept, fingerprint, limit, headers, retain, store: put },
        };
        let call = begin(asked, call, Recorded).detached(detached.then(Detach::new));
        State::Calling { call, fingerprint: Some(fingerprint), store }
    }
}

impl<S, B, A, C, R, St> fmt::Debug for IdempotencyFuture<S, B, A, C, R, St>
where
    S: Service<Request<Intact<B>>, Response = Response<A>>,
    B: Body,
    A: Body,
    C: CompletesHttp<A>,
    St: ResponseStore,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Reading { .. } => "reading",
            State::Calling { call, .. } => call.name(),
            State::Fetching { .. } => "fetching",
        };
        f.debug_struct("IdempotencyFuture").field("state", &state).finish_non_exhaustive()
    }
}

//! The future of a request with an `Idempotency-Key`.

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
    capture::{Capture, CaptureSettings, CapturedCompletion, CapturingCall, StoreEntry},
    replay::{Replay, ReplayError, StoreRead, replay},
};
use crate::{
    error::LockError,
    key::RequestHead,
    layer::{ReadyCall, token_header::TokenHeader},
    lock::HeldBytes,
    once::{
        Fingerprint, Intact, OnceError, OnceRequest, ReadBody, ResponseStore, Unchecked, WholeBody,
        call::OnceCall,
        detach::Detach,
        http::{
            CompletesHttp,
            completion::CompletionRules,
            future::{HttpCall, reject},
        },
        outcome::OnceOutcome,
        service::begin,
    },
    reject::{OnReject, RejectReason},
    resource::Resource,
};

/// The future of a request behind [`OnceLayer::idempotency`](crate::OnceLayer::idempotency): reads
/// the body, then runs the request or replays its response.
///
/// # Cancel safety
///
/// Dropping it before the call of the service drops the body, or frees the key. After that the service
/// runs to its end, and its response is stored, unless [`detached`](crate::OnceLayer::detached) is off.
///
/// # Panics
///
/// If polled again after it was ready, or if the service panics: see [`UnknownOutcome`](crate::once::UnknownOutcome).
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
    state: IdempotencyState<S, B, A, C, St>,
    accepts: AcceptEncoding,
    on_reject: R,
}

type GuardedCall<S, B, C, St> = OnceCall<CapturingCall<S, B, C, St>, Unchecked, CapturedCompletion>;

#[pin_project(project = IdempotencyStateProj)]
#[expect(
    clippy::large_enum_variant,
    reason = "the task's own memory holds the state: boxing costs an allocation"
)]
enum IdempotencyState<S, B, A, C, St>
where
    S: Service<Request<Intact<B>>, Response = Response<A>>,
    B: Body,
    A: Body,
    C: CompletesHttp<A>,
    St: ResponseStore,
{
    Reading {
        read: ReadBody<B>,
        start: Option<PendingRequest<S, C, St>>,
    },
    Calling {
        #[pin]
        call: GuardedCall<S, B, C, St>,
        fingerprint: Option<Fingerprint>,
        store: Option<StoreEntry<St>>,
    },
    Fetching {
        #[pin]
        fetching: StoreRead<St>,
        resource: Option<Resource>,
    },
}

/// A request with a key whose body is being read.
pub(super) struct PendingRequest<S, C, St> {
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
    pub(super) fn reading(
        read: ReadBody<B>,
        start: PendingRequest<S, C, St>,
        on_reject: R,
    ) -> Self {
        let state = IdempotencyState::Reading { read, start: Some(start) };
        Self { state, accepts: AcceptEncoding::default(), on_reject }
    }

    /// A request without a key.
    pub(super) fn unguarded(service: S, request: Request<Intact<B>>, on_reject: R) -> Self {
        let future = ReadyCall::new(service, request);
        Self::calling(
            OnceCall::unguarded(Capture::unguarded(future), CapturedCompletion),
            on_reject,
        )
    }

    pub(super) fn rejected(error: LockError, on_reject: R) -> Self {
        Self::calling(OnceCall::rejected(error, CapturedCompletion), on_reject)
    }

    fn calling(call: GuardedCall<S, B, C, St>, on_reject: R) -> Self {
        let state = IdempotencyState::Calling { call, fingerprint: None, store: None };
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
    R: OnReject<Response<Bytes>>,
    St: ResponseStore,
{
    type Output = Result<Response<Intact<A>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let on_reject = &*this.on_reject;
        let answer = loop {
            match this.state.as_mut().project() {
                IdempotencyStateProj::Reading { read, start } => {
                    let body = ready!(Pin::new(&mut *read).poll(cx));
                    let held = read.take_held();
                    let mut start = start.take().expect("polled after it was ready");
                    match body {
                        Ok(body) => {
                            // Before headers are removed that may count.
                            let fingerprint = start.fingerprint(&body);
                            let headers = &mut start.parts.headers;
                            *this.accepts = AcceptEncoding::ask_for_plain(headers);
                            this.state.set(start.call(body, fingerprint, held));
                        }
                        Err(incomplete) => {
                            let error = incomplete.lock_error();
                            break reject(on_reject, RejectReason::Lock(&error), None);
                        }
                    }
                }
                IdempotencyStateProj::Calling { mut call, fingerprint, store } => {
                    let ended = ready!(call.as_mut().poll(cx));
                    let resource = call.resource();
                    break match ended {
                        Ok(OnceOutcome::Ran(made) | OnceOutcome::Unrecorded(made, _)) => {
                            return Poll::Ready(Ok(made.response));
                        }
                        Ok(OnceOutcome::Done { record, .. }) => {
                            let fingerprint = fingerprint.expect("a request with a key was read");
                            match replay(&record, fingerprint, store.as_ref()) {
                                Ok(again) => answer(again, this.accepts, on_reject, resource),
                                Err(fetching) => {
                                    let resource = resource.cloned();
                                    this.state
                                        .set(IdempotencyState::Fetching { fetching, resource });
                                    continue;
                                }
                            }
                        }
                        Ok(OnceOutcome::Busy { retry_after, by, unknown }) => {
                            let reason = RejectReason::busy(unknown, retry_after, by.as_deref());
                            reject(on_reject, reason, resource)
                        }
                        Err(OnceError::Work(error)) => return Poll::Ready(Err(error)),
                        Err(OnceError::Lock(error)) => {
                            reject(on_reject, RejectReason::Lock(&error), resource)
                        }
                    };
                }
                IdempotencyStateProj::Fetching { fetching, resource } => {
                    let again = ready!(fetching.poll(cx));
                    break answer(again, this.accepts, on_reject, resource.as_ref());
                }
            }
        };
        Poll::Ready(Ok(answer.map(|body| WholeBody::from(body).into())))
    }
}

fn answer(
    again: Replay,
    accepts: &AcceptEncoding,
    on_reject: &impl OnReject<Response<Bytes>>,
    resource: Option<&Resource>,
) -> Response<Bytes> {
    let again = match again {
        Ok(answer) if !accepts.accepts(answer.headers()) => Err(ReplayError::NotAcceptable),
        again => again,
    };
    again.unwrap_or_else(|not| reject(on_reject, not.reason(), resource))
}

impl<S, C, St> PendingRequest<S, C, St> {
    fn fingerprint(&self, body: &WholeBody) -> Fingerprint {
        self.mode.same.fingerprint(&RequestHead::from(&self.parts), body.data())
    }

    /// Calls the service with the body that was read.
    fn call<B, A>(
        self,
        body: WholeBody,
        fingerprint: Fingerprint,
        held: Option<HeldBytes>,
    ) -> IdempotencyState<S, B, A, C, St>
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
        let store = store.map(|store| StoreEntry { store, key });
        let retain = asked.terms.retain;
        let request = Request::from_parts(parts, Intact::from(body).holding(held));
        let call = CapturingCall {
            call: HttpCall::new(service, request, token_header, layer),
            settings: CaptureSettings {
                rules,
                kept,
                fingerprint,
                limit,
                headers,
                retain,
                store: store.clone(),
            },
        };
        let call = begin(asked, call, CapturedCompletion).detached(detached.then(Detach::new));
        IdempotencyState::Calling { call, fingerprint: Some(fingerprint), store }
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
            IdempotencyState::Reading { .. } => "reading",
            IdempotencyState::Calling { call, .. } => call.name(),
            IdempotencyState::Fetching { .. } => "fetching",
        };
        f.debug_struct("IdempotencyFuture").field("state", &state).finish_non_exhaustive()
    }
}

//! The future of a gRPC call with a key.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::{Request, Response};
use http_body::Body;
use pin_project::pin_project;
use tonic::{Code, Status, metadata::MetadataValue};
use tonic_types::StatusExt;
use tower_service::Service;

use super::{
    CompletesGrpc, OnceGrpcBody,
    call::{BoxedCall, OnceGrpcCall},
    relay::End,
    slot::{Out, Reader},
};
use crate::{
    layer::ReadyCall,
    once::{OnceError, outcome::OnceOutcome},
    reject::{OnReject, RejectReason, Rejection, RequestOutcome, error_info},
    resource::Resource,
};

/// The future of a call behind [`OnceLayer::grpc`](crate::OnceLayer::grpc): ends with the head of the
/// response. Its [body](OnceGrpcBody) drives the call to its status.
///
/// # Cancel safety
///
/// Dropping it before the call of the service frees the key. After that the service runs to its end,
/// which is recorded, unless [`detached`](crate::OnceLayer::detached) is off.
///
/// # Panics
///
/// If polled again after it was ready, or if the service panics: see
/// [`UnknownOutcome`](crate::once::UnknownOutcome).
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct OnceGrpcFuture<S, B, A, C, R>
where
    S: Service<Request<B>, Response = Response<A>>,
    A: Body,
    C: CompletesGrpc,
{
    state: FutureState<S, B, A, C>,
    on_reject: R,
}

enum FutureState<S, B, A, C>
where
    S: Service<Request<B>, Response = Response<A>>,
    A: Body,
    C: CompletesGrpc,
{
    /// A call without a key.
    Unguarded(Pin<Box<ReadyCall<S, Request<B>>>>),
    Calling {
        /// Dropped first: the call then has no reader. Both are `None` after the head was sent.
        reader: Option<Reader<A>>,
        call: Option<BoxedCall<S, B, A, C>>,
    },
}

impl<S, B, A, C, R> OnceGrpcFuture<S, B, A, C, R>
where
    S: Service<Request<B>, Response = Response<A>>,
    A: Body,
    C: CompletesGrpc,
{
    pub(super) fn unguarded(future: ReadyCall<S, Request<B>>, on_reject: R) -> Self {
        Self { state: FutureState::Unguarded(Box::pin(future)), on_reject }
    }

    pub(super) fn calling(reader: Reader<A>, call: OnceGrpcCall<S, B, A, C>, on_reject: R) -> Self {
        Self {
            state: FutureState::Calling { reader: Some(reader), call: Some(Box::pin(call)) },
            on_reject,
        }
    }
}

impl<S, B, A, C, R> Future for OnceGrpcFuture<S, B, A, C, R>
where
    S: Service<Request<B>, Response = Response<A>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Send + 'static,
    A: Body<Data: Send, Error: Send> + Send + 'static,
    C: CompletesGrpc + Send + 'static,
    R: OnReject<Status>,
{
    type Output = Result<Response<OnceGrpcBody<A>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let (reader, call) = match this.state {
            FutureState::Unguarded(future) => {
                return Poll::Ready(Ok(ready!(future.as_mut().poll(cx))?.map(OnceGrpcBody::own)));
            }
            FutureState::Calling { reader, call } => (reader, call),
        };
        let under_way = call.as_mut().expect("polled after it was ready");
        let Poll::Ready(ended) = under_way.as_mut().poll(cx) else {
            let Some(Out::Head(head)) = reader.as_ref().and_then(Reader::take) else {
                return Poll::Pending;
            };
            let body = reader.take().zip(call.take());
            return Poll::Ready(Ok(head.map(|()| match body {
                Some((reader, call)) => OnceGrpcBody::answered(reader, call),
                None => OnceGrpcBody::default(),
            })));
        };
        let on_reject = &*this.on_reject;
        let resource = under_way.resource();
        let (status, outcome) = match ended {
            // Also without a record: after an error the client would repeat the call.
            Ok(OnceOutcome::Ran(made) | OnceOutcome::Unrecorded(made, _)) => {
                let End::Head(response) = made.end else { unreachable!("the head comes first") };
                return Poll::Ready(Ok(response.map(OnceGrpcBody::own)));
            }
            Ok(OnceOutcome::Done { .. }) => (duplicate(), RequestOutcome::Done),
            Ok(OnceOutcome::Busy { retry_after, by, unknown }) => {
                let reason = RejectReason::busy(unknown, retry_after, by.as_deref());
                reject(on_reject, reason, resource)
            }
            Err(OnceError::Work(error)) => return Poll::Ready(Err(error)),
            Err(OnceError::Lock(error)) => reject(on_reject, RejectReason::Lock(&error), resource),
        };
        let response = status.into_http::<()>().map(|()| OnceGrpcBody::default());
        Poll::Ready(Ok(outcome.mark(response)))
    }
}

/// Logs the rejection, and returns its status.
fn reject(
    on_reject: &impl OnReject<Status>,
    reason: RejectReason<'_>,
    resource: Option<&Resource>,
) -> (Status, RequestOutcome) {
    let rejection = Rejection::new(reason, resource);
    rejection.log();
    rejection.answer(on_reject)
}

/// Returns the status of a call that was done before. It can't be `OK`, which needs a message.
fn duplicate() -> Status {
    let text = "this was done before; nothing was done now";
    let details = error_info("DUPLICATE", "done");
    let mut status = Status::with_error_details(Code::AlreadyExists, text, details);
    status.metadata_mut().insert("once", MetadataValue::from_static("duplicate"));
    status
}

impl<S, B, A, C, R> fmt::Debug for OnceGrpcFuture<S, B, A, C, R>
where
    S: Service<Request<B>, Response = Response<A>>,
    A: Body,
    C: CompletesGrpc,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            FutureState::Unguarded { .. } => "unguarded",
            FutureState::Calling { call, .. } => call.as_ref().map_or("over", |call| call.name()),
        };
        f.debug_struct("OnceGrpcFuture").field("state", &state).finish_non_exhaustive()
    }
}

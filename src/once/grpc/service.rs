//! The service of gRPC calls with a key.

use std::{
    future::{Future, poll_fn},
    task::{Context, Poll},
};

use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame};
use tonic::{Code, Status, metadata::MetadataValue, server::NamedService};
use tonic_types::StatusExt;
use tower_service::Service;

use super::{
    CompletesGrpc, OnceGrpc, OnceGrpcBody,
    call::{CallEnd, SlotItem, SlotReader, relay, slot},
};
use crate::{
    layer::{ReadyCall, ResourceKey, grpc::timeout::timeout},
    once::{
        OnceError, OnceFuture, OnceService,
        execution::run_attached,
        http::call::{HttpCall, reject},
        outcome::{OnceOutcome, RequestEnd},
    },
    reject::{OnReject, RejectReason, Rejecter, Rejection, RequestOutcome, error_info},
    resource::Resource,
};

impl<S, K, C, R, B, A> Service<Request<B>> for OnceService<S, K, C, OnceGrpc<R>>
where
    S: Service<Request<B>, Response = Response<A>, Error: Send, Future: Send>,
    S: Clone + Send + 'static,
    K: ResourceKey<Request<B>>,
    C: CompletesGrpc + Clone + Send + 'static,
    R: OnReject<Status> + Clone + Send + 'static,
    B: Send + 'static,
    A: Body<Data: Send, Error: Send> + Send + 'static,
{
    type Response = Response<OnceGrpcBody<A>>;
    type Error = S::Error;
    type Future = OnceFuture<Self::Response, S::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let layer = &self.layer;
        layer.protocol.token_header.strip(request.headers_mut());
        let found = layer.protocol.missing.settle(layer.key.key(&request));
        let key = layer.request_for(found);
        let wait = timeout(request.headers());
        let HttpCall { inner, rules, rejecter, detached } = HttpCall::new(self);
        OnceFuture::new(async move {
            let mut key = match key {
                Ok(Some(key)) => key,
                Ok(None) => {
                    let call = ReadyCall::new(inner.service, request);
                    return Ok(call.await?.map(OnceGrpcBody::own));
                }
                Err(error) => return Ok(rejected(&rejecter, RejectReason::Lock(&error), None)),
            };
            key.lock = key.lock.wait_at_most(wait);
            let resource = key.resource.clone().ok();
            let (reader, writer) = slot();
            let work = move |context| {
                relay(inner.begin(request, context).tracked(), writer, rules.complete)
            };
            let ended = match until_head(run_attached(key, |_| true, detached, work), reader).await
            {
                Ok(response) => return Ok(response),
                Err(ended) => ended,
            };
            let reject = |reason: RejectReason<'_>| rejected(&rejecter, reason, resource.as_ref());
            Ok(match RequestEnd::of(ended, reject)? {
                RequestEnd::Ran(CallEnd::Head(response)) => response.map(OnceGrpcBody::own),
                RequestEnd::Ran(_) => unreachable!("the head comes first"),
                RequestEnd::Done(_) => answer(duplicate(), RequestOutcome::Done),
                RequestEnd::Rejected(response) => response,
            })
        })
    }
}

/// For `Server::add_service` with the service inside the layer.
impl<S: NamedService, K, C, P> NamedService for OnceService<S, K, C, P> {
    const NAME: &'static str = S::NAME;
}

type Ended<A, E> = Result<OnceOutcome<CallEnd<A>>, OnceError<E>>;

/// Polls a call until its head is passed on. The body then drives the rest of the call.
///
/// # Errors
///
/// The end of a call that ended before.
async fn until_head<A, E>(
    call: impl Future<Output = Ended<A, E>> + Send + 'static,
    reader: SlotReader<A>,
) -> Result<Response<OnceGrpcBody<A>>, Ended<A, E>>
where
    A: Body + 'static,
    E: 'static,
{
    let mut call = Box::pin(call);
    // Declared after the call, so dropped before it: a detached call then has no reader.
    let reader = reader;
    let head = poll_fn(|cx| match (call.as_mut().poll(cx), reader.take()) {
        (Poll::Ready(ended), _) => Poll::Ready(Err(ended)),
        (Poll::Pending, Some(SlotItem::Head(head))) => Poll::Ready(Ok(head)),
        (Poll::Pending, _) => Poll::Pending,
    });
    let head = head.await?;
    let rest = async move {
        match RequestEnd::of(call.await, trailers) {
            Ok(RequestEnd::Ran(CallEnd::Failed(error))) => Some(Err(error)),
            Ok(RequestEnd::Ran(CallEnd::Trailers(trailers)) | RequestEnd::Rejected(trailers)) => {
                Some(Ok(Frame::trailers(trailers)))
            }
            Ok(RequestEnd::Ran(CallEnd::Cut)) => None,
            Ok(RequestEnd::Ran(CallEnd::Head(_)) | RequestEnd::Done(_)) | Err(_) => {
                unreachable!("the call had begun, and its head was sent")
            }
        }
    };
    Ok(head.map(|()| OnceGrpcBody::answered(reader, Box::pin(rest))))
}

/// Returns the trailers of a call that lost its lock after its head was sent.
fn trailers(reason: RejectReason<'_>) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    // The texts of a rejection fit into headers.
    let _ = Rejection::new(reason, None).grpc_status().add_header(&mut trailers);
    trailers
}

/// Logs the rejection, and makes its response.
fn rejected<A: Body>(
    rejecter: &Rejecter<impl OnReject<Status>>,
    reason: RejectReason<'_>,
    resource: Option<&Resource>,
) -> Response<OnceGrpcBody<A>> {
    let (status, outcome) = reject(rejecter, reason, resource);
    answer(status, outcome)
}

fn answer<A: Body>(status: Status, outcome: RequestOutcome) -> Response<OnceGrpcBody<A>> {
    outcome.mark(status.into_http::<()>().map(|()| OnceGrpcBody::default()))
}

/// Returns the status of a call that was done before. It can't be `OK`, which needs a message.
fn duplicate() -> Status {
    let text = "this was done before; nothing was done now";
    let details = error_info("DUPLICATE", "done");
    let mut status = Status::with_error_details(Code::AlreadyExists, text, details);
    status.metadata_mut().insert("once", MetadataValue::from_static("duplicate"));
    status
}

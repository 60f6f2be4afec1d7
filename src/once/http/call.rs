//! A request over HTTP: its call of the service under the lock of its key, and its rejection.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body::Body;
use tower_service::Service;

use super::{CompletesHttp, OnceHttp, completion::CompletionRules};
use crate::{
    error::LockError,
    guard::{LockContext, LockContexts},
    layer::{
        ReadyCall,
        http::{ConnectionUse, HttpBody},
        token_header::TokenHeader,
    },
    once::{
        OnceService, claim::KeyRequest, execution::run_attached, outcome::RequestEnd, work::failed,
    },
    reject::{OnReject, RejectReason, Rejecter, Rejection, RequestOutcome},
    resource::Resource,
};

/// The service of a layer, with what the layer puts into a request.
#[derive(Debug)]
pub(in crate::once) struct InnerCall<S> {
    pub(in crate::once) service: S,
    token_header: TokenHeader,
    /// The layer's name.
    layer: Arc<str>,
}

impl<S> InnerCall<S> {
    /// Calls the service with the lock's context in the request's extensions.
    pub(in crate::once) fn begin<B>(
        self,
        mut request: Request<B>,
        context: LockContext,
    ) -> ReadyCall<S, Request<B>>
    where
        S: Service<Request<B>>,
    {
        self.token_header.set(request.headers_mut(), context.fencing_token());
        LockContexts::enter(request.extensions_mut(), Some(self.layer), context);
        ReadyCall::new(self.service, request)
    }
}

/// What a layer over HTTP or gRPC does to one request.
pub(in crate::once) struct HttpCall<S, C, R> {
    pub(in crate::once) inner: InnerCall<S>,
    pub(in crate::once) rules: CompletionRules<C>,
    pub(in crate::once) rejecter: Rejecter<R>,
    pub(in crate::once) detached: bool,
}

impl<S: Clone, C: Clone, R: Clone> HttpCall<S, C, R> {
    pub(in crate::once) fn new<K, M>(service: &OnceService<S, K, C, OnceHttp<R, M>>) -> Self {
        let OnceService { inner, layer } = service;
        let http = &layer.protocol;
        let inner = InnerCall {
            service: inner.clone(),
            token_header: http.token_header.clone(),
            layer: Arc::clone(layer.name()),
        };
        let (complete, server_errors) = (layer.complete.clone(), http.server_errors);
        let rules = CompletionRules { complete, server_errors };
        Self { inner, rules, rejecter: http.rejecter.clone(), detached: http.detached }
    }
}

impl<S, C, R: OnReject<Response<Bytes>>> HttpCall<S, C, R> {
    /// Runs a webhook, unless its key is done or busy. `None`: it has no key, and runs each time.
    pub(super) async fn webhook<B, A>(
        self,
        key: Result<Option<KeyRequest>, LockError>,
        request: Request<B>,
    ) -> Result<Response<HttpBody<A>>, S::Error>
    where
        S: Service<Request<B>, Response = Response<A>, Error: Send, Future: Send> + Send + 'static,
        C: CompletesHttp<A> + Send + 'static,
        B: Send + 'static,
        A: Body + Send + 'static,
    {
        let Self { inner, rules, rejecter, detached } = self;
        let of_service =
            |response: Response<A>| response.map(|body| HttpBody::of_service(body, None));
        let key = match key {
            Ok(Some(key)) => key,
            Ok(None) => return ReadyCall::new(inner.service, request).await.map(of_service),
            Err(error) => {
                let answer = reject_http(&rejecter, RejectReason::Lock(&error), None);
                return Ok(answer.map(HttpBody::of_bytes));
            }
        };
        let resource = key.resource.clone().ok();
        let connection = ConnectionUse::of(&request);
        let work = move |context: LockContext| async move {
            let call = inner.begin(request, context.clone());
            let response = match call.tracked().await {
                Ok(response) => response,
                Err(error) => return failed(error, rules.server_errors.hold()),
            };
            match connection.without_upgrade(response, Some(context.resource()), UPGRADED) {
                Ok(response) => {
                    let verdict = rules.verdict(&response, &|status| status.is_success());
                    (Ok(Ok(response)), verdict)
                }
                Err(refused) => (Ok(Err(refused)), rules.unknown_error()),
            }
        };
        let ended = run_attached(key, |_| true, detached, work).await;
        let reject = |reason: RejectReason<'_>| {
            connection.reject(&rejecter, Rejection::new(reason, resource.as_ref()))
        };
        Ok(match RequestEnd::of(ended, reject)? {
            RequestEnd::Ran(Ok(response)) => of_service(response),
            RequestEnd::Ran(Err(refused)) => connection.refuse(refused),
            RequestEnd::Rejected(response) => response,
            RequestEnd::Done(_) => duplicate().map(HttpBody::of_bytes),
        })
    }
}

/// Why a response that upgrades the connection is refused.
pub(super) const UPGRADED: &str = "the connection would outlive the lock of the request's key, and a \
                                   repetition would run beside it; let requests that upgrade have no \
                                   key";

/// Logs the rejection, and makes its response.
pub(in crate::once) fn reject<T>(
    rejecter: &Rejecter<impl OnReject<T>>,
    reason: RejectReason<'_>,
    resource: Option<&Resource>,
) -> (T, RequestOutcome) {
    rejecter.reject(Rejection::new(reason, resource))
}

pub(super) fn reject_http(
    rejecter: &Rejecter<impl OnReject<Response<Bytes>>>,
    reason: RejectReason<'_>,
    resource: Option<&Resource>,
) -> Response<Bytes> {
    let (response, outcome) = reject(rejecter, reason, resource);
    outcome.mark(response)
}

/// A success, as senders decide by the status alone.
fn duplicate() -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let name = HeaderName::from_static("once");
    response.headers_mut().insert(name, HeaderValue::from_static("duplicate"));
    RequestOutcome::Done.mark(response)
}

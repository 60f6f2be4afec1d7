//! A request over HTTP, its call of the service under the lock of its key, and its rejection.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body::Body;
use tower_service::Service;

use super::{CompletesHttp, OnceHttp, completion::CompletionRules};
use crate::{
    guard::{LockContext, LockContexts},
    layer::{ReadyCall, http::HttpBody, token_header::TokenHeader},
    once::{OnceService, claim::KeyRequest, execution::run_attached, outcome::RequestEnd},
    reject::{OnReject, RejectReason, Rejection, RequestOutcome},
    resource::Resource,
};

/// A call of the service, which gets the lock's context in the request's extensions.
#[derive(Debug)]
pub(in crate::once) struct HttpCall<S, B> {
    pub(in crate::once) service: S,
    pub(in crate::once) request: Request<B>,
    pub(in crate::once) token_header: TokenHeader,
    /// The layer's name.
    pub(in crate::once) layer: Arc<str>,
}

impl<S: Service<Request<B>>, B> HttpCall<S, B> {
    pub(in crate::once) fn begin(mut self, context: LockContext) -> ReadyCall<S, Request<B>> {
        self.token_header.set(self.request.headers_mut(), context.fencing_token());
        let layer = Some(Arc::clone(&self.layer));
        LockContexts::enter(self.request.extensions_mut(), layer, context);
        self.unguarded()
    }

    /// For a request without a key.
    pub(in crate::once) fn unguarded(self) -> ReadyCall<S, Request<B>> {
        ReadyCall::new(self.service, self.request)
    }
}

/// A webhook, with what its layer does to it.
pub(super) struct Webhook<S, C, R, B> {
    call: HttpCall<S, B>,
    rules: CompletionRules<C>,
    on_reject: R,
    detached: bool,
}

impl<S, C, R, B> Webhook<S, C, R, B> {
    pub(super) fn new<K, M>(
        service: &OnceService<S, K, C, OnceHttp<R, M>>,
        request: Request<B>,
    ) -> Self
    where
        S: Clone,
        C: Clone,
        R: Clone,
    {
        let OnceService { inner, layer } = service;
        let OnceHttp { token_header, on_reject, detached, server_errors, .. } = &layer.protocol;
        Self {
            call: HttpCall {
                service: inner.clone(),
                request,
                token_header: token_header.clone(),
                layer: Arc::clone(layer.name()),
            },
            rules: CompletionRules {
                complete: layer.complete.clone(),
                server_errors: *server_errors,
            },
            on_reject: on_reject.clone(),
            detached: *detached,
        }
    }

    /// Runs the webhook, unless its key is done or busy. `None`: it has no key, and runs each time.
    pub(super) async fn respond<A>(
        self,
        key: Result<Option<KeyRequest>, crate::LockError>,
    ) -> Result<Response<HttpBody<A>>, S::Error>
    where
        S: Service<Request<B>, Response = Response<A>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Send + 'static,
        C: CompletesHttp<A> + Send + 'static,
        R: OnReject<Response<Bytes>>,
        B: Send + 'static,
        A: Body + Send + 'static,
    {
        let Self { call, rules, on_reject, detached } = self;
        let of_service =
            |response: Response<A>| response.map(|body| HttpBody::of_service(body, None));
        let key = match key {
            Ok(Some(key)) => key,
            Ok(None) => return call.unguarded().await.map(of_service),
            Err(error) => {
                let answer = reject_http(&on_reject, RejectReason::Lock(&error), None);
                return Ok(answer.map(HttpBody::of_bytes));
            }
        };
        let resource = key.resource.clone().ok();
        let work = move |context| async move {
            let response = call.begin(context).await?;
            let verdict = rules.verdict(&response, &|status| status.is_success());
            Ok((response, verdict))
        };
        let ended = run_attached(key, |_| true, detached, work).await;
        let reject = |reason: RejectReason<'_>| reject_http(&on_reject, reason, resource.as_ref());
        let answer = match RequestEnd::of(ended, reject)? {
            RequestEnd::Ran(response) => return Ok(of_service(response)),
            RequestEnd::Done(_) => duplicate(),
            RequestEnd::Rejected(answer) => answer,
        };
        Ok(answer.map(HttpBody::of_bytes))
    }
}

/// Logs the rejection, and makes its response.
pub(in crate::once) fn reject<T>(
    on_reject: &impl OnReject<T>,
    reason: RejectReason<'_>,
    resource: Option<&Resource>,
) -> (T, RequestOutcome) {
    let rejection = Rejection::new(reason, resource);
    rejection.log();
    rejection.answer(on_reject)
}

pub(super) fn reject_http(
    on_reject: &impl OnReject<Response<Bytes>>,
    reason: RejectReason<'_>,
    resource: Option<&Resource>,
) -> Response<Bytes> {
    let (response, outcome) = reject(on_reject, reason, resource);
    outcome.mark(response)
}

/// A success, as senders decide by the status alone.
fn duplicate() -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let name = HeaderName::from_static("once");
    response.headers_mut().insert(name, HeaderValue::from_static("duplicate"));
    RequestOutcome::Done.mark(response)
}

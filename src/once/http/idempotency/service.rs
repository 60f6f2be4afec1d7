//! The service of requests with an `Idempotency-Key`.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::{
    Idempotency,
    accept_encoding::AcceptEncoding,
    capture::{CaptureSettings, IdempotentBody, StoreEntry, capture, untouched},
    host::authority,
    key::{name, of_scope},
    payload::Payload,
    replay::{ReplayError, replay},
};
use crate::{
    error::LockError,
    guard::LockContext,
    key::{self, RequestHead},
    layer::{
        KeyError, ReadyCall, ResourceKey,
        http::{ConnectionUse, HttpBody},
    },
    lock::{RecordShare, Redlock},
    once::{
        OnceFuture, OnceLayer, OnceService, ReadBody, RestoredBody,
        claim::KeyRequest,
        execution::run_attached,
        http::{
            CompletesHttp, OnceHttp,
            call::{HttpCall, reject_http},
            key::{read_body, refuse_grpc},
        },
        outcome::RequestEnd,
        terms,
    },
    reject::{OnReject, RejectReason, Rejecter, Rejection},
    resource::Resource,
};

impl<K, C, R> OnceLayer<K, C, OnceHttp<R, Idempotency>> {
    /// Returns the name of a request's record, and its scope; `None` for a request that needs no key.
    fn record_name<B>(&self, request: &Request<B>) -> Result<Option<(Resource, Resource)>, KeyError>
    where
        K: ResourceKey<Request<B>>,
    {
        let OnceHttp { missing, mode, .. } = &self.protocol;
        if !mode.applies_to(request.method()) {
            return Ok(None);
        }
        let Some(scope) = self.key.key(request)? else { return Ok(None) };
        let scope_name = of_scope(&scope)?;
        let key = missing.settle(key::idempotency_key().key(request))?;
        let Some(key) = key else { return Ok(None) };
        let head = RequestHead::from(request);
        let host = if mode.any_host { None } else { Some(authority(&head)?) };
        let name = name(self.name(), host.as_deref(), scope_name, &key)?;
        let name = refuse_grpc(request.headers(), Ok(Some(name)))?;
        Ok(name.map(|name| (name, scope)))
    }

    /// Returns the request for a request's key, and the key in the store.
    fn idempotency_key<B>(
        &self,
        request: &Request<B>,
    ) -> Result<Option<(KeyRequest, Arc<str>)>, LockError>
    where
        K: ResourceKey<Request<B>>,
    {
        let name = self.record_name(request);
        let name = name.map_err(|error| LockError::InvalidResource(error.into()))?;
        let Some((name, scope)) = name else { return Ok(None) };
        let in_store = Arc::from(name.to_string());
        let mut key = self.request(Ok(name));
        let records = self.protocol.mode.scope_records;
        key.share = records.map(|records| RecordShare { scope: terms::name(&scope), records });
        Ok(Some((key, in_store)))
    }
}

impl<S, K, C, R, B, A> Service<Request<B>> for OnceService<S, K, C, OnceHttp<R, Idempotency>>
where
    S: Service<Request<RestoredBody<B>>, Response = Response<A>, Error: Send, Future: Send>,
    S: Clone + Send + 'static,
    K: ResourceKey<Request<B>>,
    C: CompletesHttp<A> + Clone + Send + 'static,
    R: OnReject<Response<Bytes>> + Clone + Send + 'static,
    B: Body<Error: Send> + Send + 'static,
    A: Body<Error: Send> + Send + 'static,
{
    type Response = Response<HttpBody<RestoredBody<A>>>;
    type Error = S::Error;
    type Future = OnceFuture<Self::Response, S::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let layer = &self.layer;
        layer.protocol.token_header.strip(request.headers_mut());
        let key = layer.idempotency_key(&request);
        let (redlock, mode) = (layer.redlock.clone(), layer.protocol.mode.clone());
        OnceFuture::new(respond(HttpCall::new(self), redlock, mode, key, request))
    }
}

/// Reads the body, then runs the request or replays its response.
async fn respond<S, C, R, B, A>(
    call: HttpCall<S, C, R>,
    redlock: Redlock,
    mode: Idempotency,
    key: Result<Option<(KeyRequest, Arc<str>)>, LockError>,
    request: Request<B>,
) -> Result<Response<IdempotentBody<A>>, S::Error>
where
    S: Service<Request<RestoredBody<B>>, Response = Response<A>, Error: Send, Future: Send>,
    S: Send + 'static,
    C: CompletesHttp<A> + Send + 'static,
    R: OnReject<Response<Bytes>>,
    B: Body<Error: Send> + Send + 'static,
    A: Body<Error: Send> + Send + 'static,
{
    let HttpCall { inner, rules, rejecter, detached } = call;
    let (key, in_store) = match key {
        Ok(Some(key)) => key,
        Ok(None) => {
            let call = ReadyCall::new(inner.service, request.map(RestoredBody::untouched));
            return Ok(call.await?.map(untouched));
        }
        Err(error) => return Ok(reject_error(&rejecter, &error)),
    };
    let connection = ConnectionUse::of(&request);
    let (mut parts, body) = request.into_parts();
    let read = ReadBody::new(&parts.headers, body, mode.body_limit);
    let (data, body) = match read_body(read.for_layer(&redlock, mode.body_timeout)).await {
        Ok(body) => body,
        Err(error) => return Ok(reject_error(&rejecter, &error)),
    };
    // Before headers are removed that may count.
    let fingerprint = mode.same.fingerprint(&RequestHead::from(&parts), &data);
    // The memory is free once the service has read the body.
    drop(data);
    let accepts = AcceptEncoding::ask_for_plain(&mut parts.headers);
    let store = mode.store.map(|store| StoreEntry { store, key: in_store });
    let settings = CaptureSettings {
        connection,
        rules,
        kept: mode.kept,
        fingerprint,
        limit: mode.response_limit,
        headers: mode.headers,
        retain: key.terms.retain,
        store: store.clone(),
    };
    let request = Request::from_parts(parts, body);
    let resource = key.resource.clone().ok();
    let work = move |context: LockContext| {
        capture(inner.begin(request, context.clone()).tracked(), settings, context)
    };
    let ended = run_attached(key, Payload::is_final, detached, work).await;
    let reject = |reason: RejectReason<'_>| {
        connection.reject(&rejecter, Rejection::new(reason, resource.as_ref()))
    };
    let record = match RequestEnd::of(ended, reject)? {
        RequestEnd::Ran(response) | RequestEnd::Rejected(response) => return Ok(response),
        RequestEnd::Done(record) => record,
    };
    let again = match replay(&record, fingerprint, store).await {
        Ok(answer) if !accepts.accepts(answer.headers()) => Err(ReplayError::NotAcceptable),
        again => again,
    };
    Ok(match again {
        Ok(answer) => answer.map(HttpBody::of_bytes),
        Err(error) => {
            connection.reject(&rejecter, Rejection::new(error.reason(), resource.as_ref()))
        }
    })
}

fn reject_error<A: Body>(
    rejecter: &Rejecter<impl OnReject<Response<Bytes>>>,
    error: &LockError,
) -> Response<IdempotentBody<A>> {
    reject_http(rejecter, RejectReason::Lock(error), None).map(HttpBody::of_bytes)
}

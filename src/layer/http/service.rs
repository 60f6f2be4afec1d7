//! The service of a layer over HTTP.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::{HttpBody, RedlockHttp, RedlockHttpFuture, future::RequestFacts, upgrade::Offer};
use crate::{
    guard::{LockContext, LockContexts},
    layer::{RedlockService, ResourceKey, protocol::Protocol},
    reject::OnReject,
};

impl<B, R> Protocol<Request<B>> for RedlockHttp<R> {
    fn prepare(&self, request: &mut Request<B>, layer: Option<Arc<str>>, context: &LockContext) {
        self.token_header.set(request.headers_mut(), context.fencing_token());
        if self.hold_upgrade {
            Offer::set_context(request.extensions(), context);
        }
        LockContexts::enter(request.extensions_mut(), layer, context.clone());
    }
}

impl<S, K, R, B, A> Service<Request<B>> for RedlockService<S, K, RedlockHttp<R>>
where
    S: Service<Request<B>, Response = Response<A>> + Clone,
    K: ResourceKey<Request<B>>,
    R: OnReject<Response<Bytes>> + Clone,
    A: Body,
{
    type Response = Response<HttpBody<A>>;
    type Error = S::Error;
    type Future = RedlockHttpFuture<S, B, R, A>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let http = &self.layer().protocol;
        http.token_header.strip(request.headers_mut());
        let facts = RequestFacts::of(&mut request, http);
        RedlockHttpFuture::new(self.begin(request, |lock| lock), facts)
    }
}

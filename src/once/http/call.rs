use std::sync::Arc;

use http::Request;
use tower_service::Service;

use crate::{
    guard::{LockContext, LockContexts},
    layer::token_header::TokenHeader,
    once::Work,
};

/// A request that is given to the service with its lock's context.
#[derive(Debug)]
pub(in crate::once) struct HttpCall<S, B> {
    service: S,
    request: Request<B>,
    token_header: TokenHeader,
    layer: Arc<str>,
}

impl<S, B> HttpCall<S, B> {
    pub(in crate::once) const fn new(
        service: S,
        request: Request<B>,
        token_header: TokenHeader,
        layer: Arc<str>,
    ) -> Self {
        Self { service, request, token_header, layer }
    }
}

impl<S: Service<Request<B>>, B> Work for HttpCall<S, B> {
    type Future = S::Future;
    type Success = S::Response;
    type Failure = S::Error;

    fn begin(mut self, context: LockContext) -> S::Future {
        self.token_header.set(self.request.headers_mut(), context.fencing_token());
        LockContexts::enter(self.request.extensions_mut(), Some(self.layer), context);
        self.service.call(self.request)
    }
}

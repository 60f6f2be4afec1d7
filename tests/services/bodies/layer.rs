//! A layer that reads bodies, as one in front of handlers would.

use std::task::{Context, Poll};

use axum::{
    body::Body as AxumBody,
    response::{IntoResponse, Response},
};
use futures_util::future::{BoxFuture, FutureExt};
use http::{Request, StatusCode};
use http_body::Body;
use tower::{Layer, Service};
use tower_redlock::{
    key::{BodyKey, RequestHead},
    once::{Fingerprint, ReadBody, ReadBodyError, RestoredBody},
};

/// Passes the key and the fingerprint to the handler in headers.
#[derive(Clone, Debug)]
pub(crate) struct Keyed<K> {
    pub(crate) key: K,
    pub(crate) limit: usize,
}

impl<S, K: Clone> Layer<S> for Keyed<K> {
    type Service = KeyedService<S, K>;

    fn layer(&self, inner: S) -> Self::Service {
        KeyedService { inner, layer: self.clone() }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct KeyedService<S, K> {
    inner: S,
    layer: Keyed<K>,
}

impl<S, K, B, A> Service<Request<B>> for KeyedService<S, K>
where
    S: Service<Request<RestoredBody<B>>, Response = http::Response<A>, Future: Send>
        + Clone
        + Send
        + 'static,
    K: BodyKey + Clone + Send + 'static,
    B: Body<Data: Send, Error: std::fmt::Display + Send> + Unpin + Send + 'static,
    A: Body<Data = bytes::Bytes, Error: Into<axum::BoxError>> + Send + 'static,
{
    type Response = Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let clone = self.inner.clone();
        let mut ready = std::mem::replace(&mut self.inner, clone);
        let Keyed { key, limit } = self.layer.clone();
        async move {
            let (mut parts, body) = request.into_parts();
            let whole = match ReadBody::new(&parts.headers, body, limit).await {
                Ok(whole) => whole,
                Err(short) => {
                    let status = match short.error() {
                        ReadBodyError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
                        _ => StatusCode::BAD_REQUEST,
                    };
                    return Ok((status, short.into_error().to_string()).into_response());
                }
            };
            let head = RequestHead::from(&parts);
            let key = match key.body_key(&head, whole.data()) {
                Ok(key) => key.map_or_else(String::new, |key| key.to_string()),
                Err(error) => {
                    return Ok((StatusCode::BAD_REQUEST, error.to_string()).into_response());
                }
            };
            let print = Fingerprint::of(&head, whole.data());
            parts.headers.insert("x-key", key.parse().expect("a value"));
            parts.headers.insert("x-print", print.to_string().parse().expect("a value"));
            let response = ready.call(Request::from_parts(parts, whole.into())).await?;
            Ok(response.map(AxumBody::new))
        }
        .boxed()
    }
}

use std::{
    convert::Infallible,
    fmt,
    future::{Future, ready},
};

use axum::{
    extract::{FromRequestParts, OptionalFromRequestParts},
    response::{IntoResponse, Response},
};
use http::{StatusCode, request::Parts};

use super::http::HeldUpgrade;
use crate::guard::LockContext;

/// The lock that the handler runs under: that of the [`RedlockLayer`](crate::RedlockLayer) around
/// it, the innermost where there are several, with whatever face.
///
/// `Option<LockContext>` is an extractor too, for handlers of requests that may be unguarded.
///
/// ```
/// use axum::{Router, extract::Request, routing::post};
/// use tower_redlock::{LockContext, Redlock, RedlockLayer};
///
/// async fn withdraw(lock: LockContext) -> String {
///     format!("token {}", lock.fencing_token())
/// }
///
/// let account = |request: &Request| request.uri().path().to_owned();
/// let app: Router = Router::new()
///     .route("/accounts/{id}/withdraw", post(withdraw))
///     .route_layer(RedlockLayer::new(Redlock::embedded(), account).http());
/// # let _ = app;
/// ```
///
/// # Errors
///
/// [`MissingLockContext`], a 500, where the handler runs without a lock.
impl<S> FromRequestParts<S> for LockContext {
    type Rejection = MissingLockContext;

    fn from_request_parts(
        parts: &mut Parts,
        _: &S,
    ) -> impl Future<Output = Result<Self, MissingLockContext>> {
        ready(find(parts).ok_or(MissingLockContext(())))
    }
}

impl<S> OptionalFromRequestParts<S> for LockContext {
    type Rejection = Infallible;

    fn from_request_parts(
        parts: &mut Parts,
        _: &S,
    ) -> impl Future<Output = Result<Option<Self>, Infallible>> {
        ready(Ok(find(parts)))
    }
}

/// The guard that polls the handler is the innermost, whether or not it knows of extensions; a task
/// that the request was handed to has only those.
fn find(parts: &Parts) -> Option<LockContext> {
    LockContext::current().or_else(|| parts.extensions.get().cloned())
}

/// A handler asks for its [`LockContext`], and runs without a lock. Answered by a 500: the routes
/// are put together wrongly, and no client can help it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingLockContext(());

impl fmt::Display for MissingLockContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "this request runs without a lock: put a RedlockLayer around its route whose key finds \
             a resource in it, or extract Option<LockContext>",
        )
    }
}

impl std::error::Error for MissingLockContext {}

impl IntoResponse for MissingLockContext {
    fn into_response(self) -> Response {
        crate::log::error!("{self}");
        (StatusCode::INTERNAL_SERVER_ERROR, self.to_string()).into_response()
    }
}

/// The handle of a request whose connection is to be upgraded under its lock: see there for an
/// example.
///
/// # Errors
///
/// [`MissingHeldUpgrade`], a 500, where there is none: see [`take`](HeldUpgrade::take).
impl<S> FromRequestParts<S> for HeldUpgrade {
    type Rejection = MissingHeldUpgrade;

    fn from_request_parts(
        parts: &mut Parts,
        _: &S,
    ) -> impl Future<Output = Result<Self, MissingHeldUpgrade>> {
        ready(Self::take(&parts.extensions).ok_or(MissingHeldUpgrade(())))
    }
}

impl<S> OptionalFromRequestParts<S> for HeldUpgrade {
    type Rejection = Infallible;

    fn from_request_parts(
        parts: &mut Parts,
        _: &S,
    ) -> impl Future<Output = Result<Option<Self>, Infallible>> {
        ready(Ok(Self::take(&parts.extensions)))
    }
}

/// A handler asks for a [`HeldUpgrade`] that is not there. Answered by a 500: the routes are put
/// together wrongly, and no client can help it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingHeldUpgrade(());

impl fmt::Display for MissingHeldUpgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "this request has no lock that can be held for an upgraded connection: put a RedlockLayer \
             with hold_upgrade(true) around its route, and extract HeldUpgrade once",
        )
    }
}

impl std::error::Error for MissingHeldUpgrade {}

impl IntoResponse for MissingHeldUpgrade {
    fn into_response(self) -> Response {
        crate::log::error!("{self}");
        (StatusCode::INTERNAL_SERVER_ERROR, self.to_string()).into_response()
    }
}

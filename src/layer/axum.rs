//! Extractors for axum.

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
use crate::{
    guard::{LockContext, LockContexts},
    reject::RequestOutcome,
};

/// Makes a type and its `Option` extractors.
macro_rules! extractor {
    ($(#[$doc:meta])* $type:ty, $missing:ident, $find:expr) => {
        $(#[$doc])*
        impl<S> FromRequestParts<S> for $type {
            type Rejection = $missing;

            fn from_request_parts(
                parts: &mut Parts,
                _: &S,
            ) -> impl Future<Output = Result<Self, $missing>> {
                ready($find(parts).ok_or($missing(())))
            }
        }

        impl<S> OptionalFromRequestParts<S> for $type {
            type Rejection = Infallible;

            fn from_request_parts(
                parts: &mut Parts,
                _: &S,
            ) -> impl Future<Output = Result<Option<Self>, Infallible>> {
                ready(Ok($find(parts)))
            }
        }
    };
}

extractor!(
    /// The lock that the handler runs under: the lock of the innermost layer around it, over any
    /// protocol. [`LockContexts`] has the locks of the other layers.
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
    /// let layer = RedlockLayer::new(Redlock::embedded(), account).http();
    /// let app: Router =
    ///     Router::new().route("/accounts/{id}/withdraw", post(withdraw).route_layer(layer));
    /// # let _ = app;
    /// ```
    ///
    /// # Errors
    ///
    /// [`MissingLockContext`], a 500, if the handler runs without a lock.
    LockContext,
    MissingLockContext,
    // The guard that polls the handler is the innermost one, with or without extensions. A task
    // that the request was moved to has only the extensions.
    |parts: &Parts| LockContext::current().or_else(|| parts.extensions.get().cloned())
);

extractor!(
    /// The locks of all layers around the handler, by the names of the layers.
    ///
    /// `Option<LockContexts>` is an extractor too.
    ///
    /// ```
    /// use axum::{Router, http::StatusCode, routing::post};
    /// use tower_redlock::{LockContexts, OnceLayer, Redlock, RedlockLayer, key};
    ///
    /// async fn pay(locks: LockContexts) -> Result<String, StatusCode> {
    ///     let account = locks.get("account").ok_or(StatusCode::INTERNAL_SERVER_ERROR)?;
    ///     Ok(format!("paid under the account's token {}", account.fencing_token()))
    /// }
    ///
    /// let redlock = Redlock::embedded();
    /// let account = RedlockLayer::new(redlock.clone(), key::path_param("id")).named("account").http();
    /// let payments = OnceLayer::new(redlock, "payments", key::header("payment-id")).http();
    /// // The layer that is added later is outside.
    /// let pay = post(pay).route_layer(account).route_layer(payments);
    /// let app: Router = Router::new().route("/accounts/{id}/pay", pay);
    /// # let _ = app;
    /// ```
    ///
    /// # Errors
    ///
    /// [`MissingLockContext`], a 500, if no layer around the handler acquired a lock.
    LockContexts,
    MissingLockContext,
    |parts: &Parts| parts.extensions.get().cloned()
);

extractor!(
    /// The handle of a request whose connection is upgraded under its lock. [`HeldUpgrade`] has an
    /// example.
    ///
    /// # Errors
    ///
    /// [`MissingHeldUpgrade`], a 500, if there is none: see [`take`](HeldUpgrade::take).
    HeldUpgrade,
    MissingHeldUpgrade,
    |parts: &Parts| HeldUpgrade::take(&parts.extensions)
);

/// Implements the rejection of an extractor: a 500 whose text describes the correct setup of the
/// routes.
macro_rules! missing {
    ($type:ident, $text:literal) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($text)
            }
        }

        impl std::error::Error for $type {}

        impl IntoResponse for $type {
            fn into_response(self) -> Response {
                crate::log::error!("{self}");
                let response = (StatusCode::INTERNAL_SERVER_ERROR, self.to_string());
                RequestOutcome::Refused.mark(response.into_response())
            }
        }
    };
}

/// The rejection of [`LockContext`] and [`LockContexts`] in a handler that runs without a lock: a 500, as
/// the setup of the routes is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingLockContext(());

missing!(
    MissingLockContext,
    "this request runs without a lock: put a RedlockLayer around its route whose key finds a resource \
     in it, or extract Option<LockContext>"
);

/// The rejection of a missing [`HeldUpgrade`]: a 500, as the setup of the routes is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingHeldUpgrade(());

missing!(
    MissingHeldUpgrade,
    "this request has no lock that can be held for an upgraded connection: put a RedlockLayer with \
     hold_upgrade(true) around its route, and extract HeldUpgrade once"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_context_is_marked_as_refused() {
        let answer = MissingLockContext(()).into_response();
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(RequestOutcome::of(&answer), Some(RequestOutcome::Refused));
    }
}

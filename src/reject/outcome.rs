//! The outcome of a request as an extension of its response.

use http::Response;

/// The outcome of a request, if it does not follow from the status of the response: an extension of
/// the response, for an outer [`OnceLayer`](crate::OnceLayer).
///
/// It takes precedence over the status and over [`complete_when`](crate::OnceLayer::complete_when).
/// This crate's layers set it on responses to requests that they refuse, or whose outcome is
/// unknown. A handler sets it only if its status does not express the outcome. A response that is
/// made from a lock error outside this crate, for example by axum's `HandleErrorLayer`, has none:
/// set [`Unknown`](Self::Unknown) after [`LockError::Lost`](crate::LockError::Lost). It is not sent
/// over the network.
///
/// ```
/// use axum::{Extension, http::StatusCode, response::{IntoResponse, Response}};
/// use tower_redlock::reject::RequestOutcome;
///
/// async fn pay(order: String) -> Response {
///     match charge(&order).await {
///         Ok(receipt) => receipt.into_response(),
///         // The card's network did not answer: was it charged?
///         Err(error) if error.is_timeout => {
///             (StatusCode::BAD_GATEWAY, Extension(RequestOutcome::Unknown)).into_response()
///         }
///         Err(_) => StatusCode::BAD_GATEWAY.into_response(),
///     }
/// }
/// # struct Failure { is_timeout: bool }
/// # async fn charge(order: &str) -> Result<String, Failure> { Ok(order.to_owned()) }
/// # let _ = pay;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RequestOutcome {
    /// The request is done, and so is its key, regardless of the status. A layer for
    /// `Idempotency-Key` keeps the response and replays it.
    Done,
    /// The request was refused without an effect, so its key is free, regardless of the status.
    Refused,
    /// The request may have happened, or happened in part. [`unknown`](crate::OnceLayer::unknown)
    /// decides on the key.
    Unknown,
}

impl RequestOutcome {
    /// Returns the outcome that a response states; `None` if its status decides.
    pub fn of<B>(response: &Response<B>) -> Option<Self> {
        let stated = response.extensions().get().copied();
        #[cfg(feature = "tonic")]
        let stated = stated.or_else(|| grpc::outcome_among(response.extensions()));
        stated
    }

    /// Sets the outcome of a response.
    pub(crate) fn mark<B>(self, mut response: Response<B>) -> Response<B> {
        response.extensions_mut().insert(self);
        response
    }

    /// Returns the outcome of a request that a layer of this crate has refused or stopped.
    pub(crate) const fn of_rejection(is_unknown: bool) -> Self {
        if is_unknown { Self::Unknown } else { Self::Refused }
    }
}

/// The outcome that a gRPC status states.
#[cfg(feature = "tonic")]
pub(super) mod grpc {
    use http::Extensions;
    use tonic::{Code, Status};
    use tonic_types::StatusExt;

    use super::RequestOutcome;

    /// The reason of the `ErrorInfo` of a lost lock.
    pub(in crate::reject) const LOCK_LOST: &str = "LOCK_LOST";

    /// The domain of every `ErrorInfo`.
    pub(in crate::reject) const DOMAIN: &str = "tower-redlock";

    /// Returns the outcome of a method whose own status was made from the error of a lost lock. tonic's
    /// servers keep the status in the response's extensions.
    pub(super) fn outcome_among(extensions: &Extensions) -> Option<RequestOutcome> {
        let status = extensions.get::<Status>().filter(|status| status.code() == Code::Unknown)?;
        let info = status.get_details_error_info()?;
        let is_lost = info.reason == LOCK_LOST && info.domain == DOMAIN;
        is_lost.then_some(RequestOutcome::Unknown)
    }
}

use http::{Extensions, Response};

/// What became of a request, where its response's status does not tell: an extension of the
/// response, for an [`OnceLayer`](crate::OnceLayer) outside.
///
/// It goes before whatever the layer goes by otherwise: the status,
/// [`complete_when`](crate::OnceLayer::complete_when).
/// The responses of this crate's own layers to requests that were turned away, or whose outcome is
/// not known, have it; so handlers need it only for what they know better than their status says.
/// A response that is made by hand of a lock's error (by axum's `HandleErrorLayer`, say) has none:
/// after [`LockError::Lost`](crate::LockError::Lost) it should say [`Unknown`](Self::Unknown).
/// It is not sent over the network.
///
/// ```
/// use axum::{Extension, http::StatusCode, response::{IntoResponse, Response}};
/// use tower_redlock::layer::http::RequestOutcome;
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
    /// It is done: so is its key, whatever the status. A layer for `Idempotency-Key` keeps the
    /// response, and sends it again.
    Done,
    /// It was turned away, and did nothing: its key is free, whatever the status.
    Refused,
    /// Nobody knows whether it was done, or how far it came. What becomes of its key is what
    /// [`unknown`](crate::OnceLayer::unknown) says.
    Unknown,
}

impl RequestOutcome {
    /// What a response says of its request; `None` where there is only the status to go by.
    pub fn of<B>(response: &Response<B>) -> Option<Self> {
        Self::among(response.extensions())
    }

    fn among(extensions: &Extensions) -> Option<Self> {
        let said = extensions.get().copied();
        #[cfg(feature = "tonic")]
        let said = said.or_else(|| crate::layer::grpc::outcome_among(extensions));
        said
    }

    /// Has the response say so.
    pub(crate) fn mark<B>(self, mut response: Response<B>) -> Response<B> {
        response.extensions_mut().insert(self);
        response
    }

    /// That of a request that this crate has turned away, or stopped.
    pub(crate) const fn of_rejection(has_begun: bool) -> Self {
        if has_begun { Self::Unknown } else { Self::Refused }
    }
}

//! The trait that makes responses to rejected requests.

use bytes::Bytes;
use http::Response;

use super::{Rejection, RequestOutcome};

/// Makes the response to a rejected request: `T` is `http::Response<Bytes>` over HTTP, and
/// `tonic::Status` over gRPC.
///
/// Implemented by closures from [`Rejection`] to `T`, and by [`DefaultResponse`].
pub trait OnReject<T> {
    /// Makes the response.
    fn respond(&self, rejection: Rejection<'_>) -> T;
}

impl<F, T> OnReject<T> for F
where
    F: Fn(Rejection<'_>) -> T,
{
    fn respond(&self, rejection: Rejection<'_>) -> T {
        self(rejection)
    }
}

impl Rejection<'_> {
    /// Creates the response, and returns the outcome that the caller must mark on it.
    pub(crate) fn answer<T>(self, on_reject: &impl OnReject<T>) -> (T, RequestOutcome) {
        let outcome = RequestOutcome::of_rejection(self.outcome() == "unknown");
        (on_reject.respond(self), outcome)
    }
}

/// Responds with [`Rejection::response`], a problem body, or with `Rejection::grpc_status`.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultResponse(());

impl OnReject<Response<Bytes>> for DefaultResponse {
    fn respond(&self, rejection: Rejection<'_>) -> Response<Bytes> {
        rejection.response()
    }
}

#[cfg(feature = "tonic")]
impl OnReject<tonic::Status> for DefaultResponse {
    fn respond(&self, rejection: Rejection<'_>) -> tonic::Status {
        rejection.grpc_status()
    }
}

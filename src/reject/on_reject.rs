//! The trait that makes responses to rejected requests.

use bytes::Bytes;
use http::Response;

use super::Rejection;

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

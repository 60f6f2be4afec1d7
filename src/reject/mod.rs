//! Responses of the layers to rejected requests, over HTTP and gRPC.
//!
//! [`RedlockLayer`](crate::RedlockLayer), [`OnceLayer`](crate::OnceLayer) and
//! [`FencingLayer`](crate::FencingLayer) describe a request that they refuse, or whose outcome is
//! unknown, by a [`Rejection`]. Their setting `on_reject` takes a closure that makes a response from it;
//! one closure fits all layers. The default is [`DefaultResponse`].
//!
//! ```
//! use bytes::Bytes;
//! use http::Response;
//! use tower_redlock::{FencingLayer, Redlock, RedlockLayer, key, reject::Rejection};
//!
//! fn plain_text(rejection: Rejection<'_>) -> Response<Bytes> {
//!     let mut response = Response::new(rejection.detail().into_owned().into());
//!     *response.status_mut() = rejection.status();
//!     response
//! }
//!
//! let locked = RedlockLayer::new(Redlock::embedded(), key::header("x-account")).http();
//! let locked = locked.on_reject(plain_text);
//! let fenced = FencingLayer::new(key::header("x-account")).http().on_reject(plain_text);
//! # let _ = (locked, fenced);
//! ```

#[cfg(feature = "tonic")]
mod grpc;
mod on_reject;
mod outcome;
mod problem;
mod rejecter;
mod rejection;

#[cfg(feature = "tonic")]
pub(crate) use grpc::error_info;
pub use on_reject::{DefaultResponse, OnReject};
pub use outcome::RequestOutcome;
pub(crate) use problem::problem;
pub(crate) use rejecter::Rejecter;
pub use rejection::{RejectReason, Rejection};

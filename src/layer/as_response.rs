//! The compiler's message for a layer in front of a router that lacks `.http()`.

use std::{convert::Infallible, fmt::Display};

use super::GuardError;

/// Implemented by no type. If a router requires a service that never fails, the diagnostics of this
/// trait name the missing call on the layer.
#[diagnostic::on_unimplemented(
    message = "lock errors are not responses here",
    label = "this service can fail with a lock error",
    note = "call `.http()` (or `.grpc()`) on the layer: lock errors are responses then",
    note = "or handle them outside of the layer, with axum's `HandleErrorLayer`"
)]
pub trait AsResponse {
    #[doc(hidden)]
    fn never(error: &dyn Display) -> Infallible;
}

/// Never called: see [`AsResponse`].
///
/// ```compile_fail,E0277
/// use axum::{Router, extract::Request, routing::post};
/// use tower_redlock::{Redlock, RedlockLayer};
///
/// let path = |request: &Request| request.uri().path().to_owned();
/// let layer = RedlockLayer::new(Redlock::embedded(), path);
/// let app: Router = Router::new().route("/", post(async || "done")).layer(layer);
/// ```
impl<E: AsResponse + Display> From<GuardError<E>> for Infallible {
    fn from(error: GuardError<E>) -> Self {
        E::never(&error)
    }
}

//! What a layer does by the protocol of its requests.

use std::sync::Arc;

use crate::guard::LockContext;

/// Prepares a request for the service, by the protocol of a layer.
pub(super) trait Protocol<Request> {
    /// Called once, under the lock. `layer` is the name of the layer.
    fn prepare(&self, request: &mut Request, layer: Option<Arc<str>>, context: &LockContext);
}

/// Marks a layer whose outcomes are part of the types of its service.
///
/// Its errors are [`GuardError`](super::GuardError) in a [`RedlockLayer`](crate::RedlockLayer), `OnceError` in an
/// `OnceLayer`, whose responses are `Once`, and `FencingServiceError` in a `FencingLayer`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain(pub(crate) ());

impl<Request> Protocol<Request> for Plain {
    fn prepare(&self, _: &mut Request, _: Option<Arc<str>>, _: &LockContext) {}
}

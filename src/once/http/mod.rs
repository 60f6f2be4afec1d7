//! The faces that outcomes have over HTTP.
//!
//! | part | where |
//! |---|---|
//! | settings, and webhooks with a key in the head | [`Http`], [`HttpFuture`] |
//! | webhooks with a key in the body | [`ByBody`], [`ByBodyFuture`] |
//! | requests with an `Idempotency-Key` | [`Idempotency`], [`IdempotencyFuture`], [`Scope`] |
//! | which responses mean that a key is done | [`CompletesHttp`] |
//! | what becomes of a request without a key | [`Missing`] |
//! | why a request was turned away, and what it is answered | [`Rejection`], [`Refused`], [`OnReject`] |
//! | a request under its lock | `call` |

mod by_body;
mod call;
mod complete;
mod face;
mod future;
mod idempotency;
mod missing;
mod reject;

pub use by_body::{ByBody, ByBodyFuture};
pub use complete::CompletesHttp;
pub use face::{ByHead, Http};
pub use future::HttpFuture;
pub use idempotency::{
    DEFAULT_RESPONSE_LIMIT, Idempotency, IdempotencyFuture, OnNodes, Scope, Unscoped,
};
pub use missing::Missing;
pub use reject::{OnReject, Problems, Refused, Rejection};

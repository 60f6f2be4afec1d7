//! The faces that outcomes have over HTTP.
//!
//! # Webhooks
//!
//! Senders deliver an event again until they see a 2xx. With
//! [`OnceLayer::http`](crate::OnceLayer::http) the handler runs to success once per event, and
//! whoever sends it again sees a 200. What names an event:
//!
//! | sender | key |
//! |---|---|
//! | Standard Webhooks, and Svix in that mode | `key::header("webhook-id")` |
//! | GitHub | `key::header("x-github-delivery")` |
//! | Shopify | `key::header("x-shopify-event-id")` |
//! | Stripe | `key::json_pointer("/id")`, with [`OnceLayer::by_body`](crate::OnceLayer::by_body) |
//!
//! Each sender counts for itself: its layer has a name of its own, which stands before its keys. So
//! does each route of one sender whose handler does something else: an event that was handled behind
//! a layer is a duplicate on all routes that this layer is around. Keep keys for longer than the
//! sender goes on sending ([`retain`](crate::OnceLayer::retain)).
//!
//! **Signatures are checked before this layer**, by one outside of it. Were they checked behind it,
//! anybody who can guess an event's name could block it before its sender has sent it, and would
//! learn from a duplicate's 200 which events there were. Of axum's `layer` and `route_layer` the
//! one that is called *last* is the outermost; of the layers of a `ServiceBuilder` the *first* is. A
//! signature is over the bytes of the body: what checks it hands them on as they were.
//!
//! ```
//! use axum::{
//!     Router,
//!     body::{Body, to_bytes},
//!     extract::Request,
//!     http::StatusCode,
//!     middleware::{self, Next},
//!     response::Response,
//!     routing::post,
//! };
//! use tower_redlock::{OnceLayer, Redlock, key};
//!
//! async fn verify(request: Request, next: Next) -> Result<Response, StatusCode> {
//!     let (parts, body) = request.into_parts();
//!     let body = to_bytes(body, 1 << 20).await.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?;
//!     if !is_signed(&parts.headers, &body) {
//!         return Err(StatusCode::UNAUTHORIZED);
//!     }
//!     Ok(next.run(Request::from_parts(parts, Body::from(body))).await)
//! }
//!
//! # fn is_signed(_: &axum::http::HeaderMap, _: &[u8]) -> bool { true }
//! async fn handle(event: String) -> Result<(), StatusCode> {
//!     // An error: the event is free for the sender's next try.
//!     apply(&event).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
//! }
//!
//! # fn apply(_: &str) -> std::io::Result<()> { Ok(()) }
//! let redlock = Redlock::embedded();
//! let github = OnceLayer::new(redlock.clone(), "github", key::header("x-github-delivery"));
//! let stripe = OnceLayer::by_body(redlock, "stripe", key::json_pointer("/id"));
//! let app: Router = Router::new()
//!     .route("/github", post(handle).layer(github.http()))
//!     .route("/stripe", post(handle).layer(stripe))
//!     // Called last, so the outermost: strangers don't come as far as to the layers above.
//!     .layer(middleware::from_fn(verify));
//! # let _ = app;
//! ```
//!
//! # Requests that are sent again
//!
//! Clients send a POST again when they don't know what became of it. With
//! [`OnceLayer::idempotency`](crate::OnceLayer::idempotency) they give it an `Idempotency-Key`: the request runs once, and whoever
//! sends the same again gets the first answer.
//!
//! # What is where
//!
//! | part | where |
//! |---|---|
//! | settings, and webhooks with a key in the head | [`Http`], [`HttpFuture`] |
//! | webhooks with a key in the body | [`ByBody`], [`ByBodyFuture`] |
//! | requests with an `Idempotency-Key` | [`Idempotency`], [`IdempotencyFuture`], [`Scope`] |
//! | which responses mean that a key is done | [`CompletesHttp`], [`KeptStatuses`] |
//! | what a 5xx does to a key | [`ServerErrors`] |
//! | what becomes of a request without a key | [`Missing`] |
//! | why a request was turned away, and what it is answered | [`Rejection`], [`Refused`], [`OnReject`] |
//! | requests of gRPC, which are refused | `protocol` |
//! | a request under its lock | `call` |

mod by_body;
pub(super) mod call;
mod completion;
mod face;
mod future;
mod idempotency;
mod key;
mod protocol;
mod reject;
mod server_errors;

pub use by_body::{ByBody, ByBodyFuture};
pub use completion::CompletesHttp;
pub use face::{ByHead, Http};
pub use future::HttpFuture;
pub use idempotency::{
    DEFAULT_RESPONSE_LIMIT, Idempotency, IdempotencyFuture, KeptStatuses, OnNodes, Scope, Unscoped,
};
pub use key::Missing;
pub use reject::{OnReject, Problems, Refused, Rejection};
pub use server_errors::ServerErrors;

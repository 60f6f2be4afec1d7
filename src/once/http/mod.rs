//! Once requests over HTTP: webhooks, and requests with an `Idempotency-Key`.
//!
//! # Webhooks
//!
//! Senders deliver an event again until they see a 2xx. With
//! [`OnceLayer::http`](crate::OnceLayer::http) the handler runs to success once per event, and each
//! further delivery is answered with 200. The key of an event:
//!
//! | sender | key |
//! |---|---|
//! | Standard Webhooks, and Svix in that mode | `key::header("webhook-id")` |
//! | GitHub | `key::header("x-github-delivery")` |
//! | Shopify | `key::header("x-shopify-event-id")` |
//! | Stripe | `key::json_pointer("/id")`, with [`OnceLayer::by_body`](crate::OnceLayer::by_body) |
//!
//! Give the layer of each sender a name of its own, which prefixes its keys, and also the layer of
//! each route with another handler: an event that was handled behind a layer is a duplicate on all
//! routes of that layer. [Retain](crate::OnceLayer::retain) keys for longer than the sender retries.
//!
//! **Check signatures before this layer**, in a layer outside of it. Inside of it, a client that can
//! guess an event's id could block the event before its sender has sent it, and would learn from the 200
//! which events were handled. In axum the layer that was added *last* is the outermost, in a
//! `ServiceBuilder` the *first*. A signature covers the bytes of the body: the check passes them on
//! unchanged.
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
//!     // Added last, so the outermost.
//!     .layer(middleware::from_fn(verify));
//! # let _ = app;
//! ```
//!
//! # Requests with an `Idempotency-Key`
//!
//! Clients send a POST again if they don't know its outcome. With
//! [`OnceLayer::idempotency`](crate::OnceLayer::idempotency) and an `Idempotency-Key` the request runs
//! once, and each repetition is answered with the first response.
//!
//! Responses to rejected requests: see [`reject`](crate::reject).

pub(super) mod call;
mod completion;
mod idempotency;
mod key;
mod service;
mod settings;

pub use completion::{CompletesHttp, ServerErrors};
#[cfg(any(test, fuzzing))]
pub(crate) use idempotency::fuzzing;
pub use idempotency::{DEFAULT_RESPONSE_LIMIT, Idempotency, KeptStatuses, Scope, Unscoped};
pub use key::Missing;
pub use settings::{ByBody, ByHead, HttpMode, OnceHttp};

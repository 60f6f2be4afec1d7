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
//!
//! # When a request is done (R13)
//!
//! A request is done when the head of its response is known, and that is recorded then: for a webhook
//! all of it; for a request whose response is stored, and whose body or store takes time, its status,
//! in a record that says that the rest follows. While the lock is held, such a record means "in
//! progress"; without a holder, "done without a response". The same lease replaces it by the final
//! one, whose TTL ends later: a client that finds an unfinished record asks every node, and takes the
//! one with the latest expiry. Reading and storing the body end at the soft deadline of the lock.
//!
//! `RequestOutcome`, an extension of the response, takes precedence over the status and the user's
//! rule. All responses of this crate that refuse a request, or whose outcome is unknown, have it,
//! also those that a user's `on_reject` makes. Without it, the 500 of a lock that was lost inside of
//! a key's work would be an ordinary failure, which frees the key. Then the user's rule applies, or
//! the default for the status; of what that does not call done, `server_errors` decides about a 5xx.
//! To hold the key of a 5xx, a record that its work was *begun* is stored after the response, unless
//! the option for unknown outcomes has stored it before.

pub(super) mod call;
mod completion;
mod idempotency;
mod key;
mod service;
mod settings;

pub use completion::{CompletesHttp, ServerErrors};
#[cfg(any(test, fuzzing))]
pub(crate) use idempotency::fuzzing;
pub use idempotency::{
    DEFAULT_HOLD, DEFAULT_RESPONSE_LIMIT, Idempotency, KeptStatuses, Scope, Unscoped,
};
pub use key::Missing;
pub use settings::{ByBody, ByHead, HttpMode, OnceHttp};

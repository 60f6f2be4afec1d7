//! [`OnceLayer`](crate::OnceLayer) over gRPC: calls that run to success once per key.
//!
//! The HTTP status of a gRPC call is always 200; the `grpc-status` at its end is its outcome. So
//! [`OnceLayer::http`](crate::OnceLayer::http) can't decide which calls are done, and refuses gRPC requests
//! with a key.
//!
//! ```
//! use tonic::transport::Server;
//! use tower_redlock::{OnceLayer, Redlock, key};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! // On every method: reads, health checks and reflection have no key, and run each time.
//! let once = OnceLayer::new(Redlock::embedded(), "orders", key::header("request-id").optional())
//!     .grpc();
//! let server = Server::builder().layer(once);
//! // server.add_service(OrdersServer::new(orders)).serve(addr).await
//! # drop(server);
//! # }
//! ```
//!
//! Or around one service: `add_service(once.layer(OrdersServer::new(orders)))`. Methods under one
//! layer share its keys. If clients may use an id for several methods, join it with the method:
//! [`key::joined`](crate::key::joined), [`key::method_and_path`](crate::key::method_and_path). Join it with
//! the authenticated principal ([`key::extension`](crate::key::extension)), so that no caller can block or
//! probe another's ids. Authentication belongs outside of this layer.
//!
//! Responses are not stored: a duplicate gets the status that the call is done, without its response.
//!
//! | part | where |
//! |---|---|
//! | settings | [`OnceGrpc`] |
//! | the effect of a call's status on its key | [`CallOutcome`], [`CompletesGrpc`] |
//! | the statuses of rejected calls | [`Rejection::grpc_status`](crate::reject::Rejection::grpc_status) |
//! | the body of a response | [`OnceGrpcBody`] |
//! | a call up to its status | `call` |
//!
//! # When a call is done (R13)
//!
//! A call is done when its status is known, which is in the trailers, or in the head of a response
//! without a body. So the work is the method *and* its body: head and data pass through a slot for
//! one of them, as the client takes them, and the trailers follow when their record is stored. A
//! status may mean that the outcome is unknown, as does a missing one; then the record that the work
//! was begun stays. If no client reads any more, the body is read to its end nevertheless, so that a
//! client that disconnects between the method's end and the trailers does not cause a second run. Its
//! reader is what slows a stream down, so without one the number and size of further frames have a limit.
//!
//! The choice of statuses: `docs/decisions/009-grpc-outcomes.md`.

mod body;
mod call;
mod outcome;
mod service;
mod settings;

pub use body::OnceGrpcBody;
pub use outcome::{CallOutcome, CompletesGrpc};
pub use settings::{ByStatus, OnceGrpc};

//! [`OnceLayer`](crate::OnceLayer) over gRPC: calls that run to success once per key.
//!
//! The HTTP status of a gRPC call is 200 also where the call fails; the `grpc-status` at its end says how it
//! ended. So [`OnceLayer::http`](crate::OnceLayer::http) can't tell which calls are
//! done, and refuses gRPC requests with a key; this one can.
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
//! layer share its keys: give each method keys of its own by
//! [`key::joined`](crate::key::joined) with [`key::method_and_path`](crate::key::method_and_path),
//! where clients may use an id for several. Who calls is not part of the key either: join it with an
//! authenticated principal ([`key::extension`](crate::key::extension)), so that no caller can block or
//! probe another's ids. What checks who calls belongs outside of this layer.
//!
//! Responses are not kept: a duplicate learns that the call was done, not what it was answered.
//!
//! | part | where |
//! |---|---|
//! | settings | [`OnceGrpc`] |
//! | which status means that a call is done | [`CallOutcome`], [`CompletesGrpc`] |
//! | which status says what | [`Rejection::grpc_status`](crate::reject::Rejection::grpc_status) |
//! | the future of a call, the body of a response | [`OnceGrpcFuture`], [`OnceGrpcBody`] |
//! | a call up to its status | `relay`, `slot` |

mod body;
mod call;
mod future;
mod outcome;
mod relay;
mod service;
mod slot;

pub use body::OnceGrpcBody;
pub use future::OnceGrpcFuture;
pub use outcome::{CallOutcome, CompletesGrpc};
pub use service::OnceGrpc;

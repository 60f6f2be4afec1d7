//! [`RedlockLayer`](crate::RedlockLayer) over gRPC: lock errors are statuses.
//!
//! ```
//! use std::time::Duration;
//! use http::Request;
//! use tonic::{body::Body, transport::Server};
//! use tower_redlock::{layer::KeyError, Redlock, RedlockLayer};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let one_at_a_time = RedlockLayer::new(Redlock::embedded(), |request: &Request<Body>| {
//!     let order = request.headers().get("order-id").and_then(|id| id.to_str().ok());
//!     order.map(|id| format!("order:{id}")).ok_or(KeyError::new("no order-id in the metadata"))
//! })
//! .wait(Duration::from_secs(2))
//! .grpc();
//! let server = Server::builder().layer(one_at_a_time);
//! // server.add_service(OrdersServer::new(orders)).serve(addr).await
//! # drop(server);
//! # }
//! ```
//!
//! Around a server, the layer applies to each method: this one rejects health checks and reflection, which
//! lack the metadata. Let the key return `None` for methods without a lock, or put the layer around one
//! service: `add_service(one_at_a_time.layer(OrdersServer::new(orders)))`. The example `tonic` is a whole
//! service, with a stream.

mod body;
mod service;
pub(crate) mod timeout;

pub use body::GrpcBody;
pub use service::RedlockGrpc;

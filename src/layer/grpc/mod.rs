//! The face that lock errors have over gRPC.
//!
//! | part | where |
//! |---|---|
//! | settings | [`Grpc`] |
//! | which status says what | [`Rejection::grpc_status`] |
//! | the future of a request, the body of a response | [`GrpcFuture`], [`GrpcBody`] |

mod body;
mod face;
mod future;
mod named;
mod status;

pub use body::GrpcBody;
pub use face::Grpc;
pub use future::GrpcFuture;

pub use super::http::Rejection;

//! The face that lock errors have over gRPC.
//!
//! | part | where |
//! |---|---|
//! | settings | [`Grpc`] |
//! | which status says what | `status` |
//! | the future of a request, the body of a response | [`GrpcFuture`], [`GrpcBody`] |

mod body;
mod face;
mod future;
mod status;

pub use body::GrpcBody;
pub use face::Grpc;
pub use future::GrpcFuture;

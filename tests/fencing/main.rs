//! The fence of a resource: no request passes that is older than one that has passed.

mod eviction;
#[cfg(feature = "tonic")]
mod grpc;
#[cfg(feature = "http")]
mod http;
mod model;
mod overtaken;
mod plain;
mod tools;

//! The fence of a resource: no request passes that is older than one that has passed.

#[cfg(feature = "http")]
#[allow(dead_code, reason = "the tools of other tests, of which only a part is used here")]
#[path = "../support/upgrades.rs"]
mod handlers;

mod eviction;
#[cfg(feature = "tonic")]
mod grpc;
#[cfg(feature = "http")]
mod http;
mod model;
mod overtaken;
mod plain;
mod tools;
#[cfg(feature = "http")]
mod upgrades;

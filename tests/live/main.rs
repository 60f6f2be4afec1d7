//! The layers over HTTP and gRPC, and whole services: locks over real servers, and calls over real
//! connections.

#[allow(dead_code, reason = "the tools of other tests, of which only a part is used here")]
#[path = "../support/upgrades.rs"]
mod handlers;
#[allow(dead_code, reason = "the tools of another test, of which only a part is used here")]
#[path = "../support/log.rs"]
mod log;
#[path = "../support/mod.rs"]
mod support;

mod grpc;
mod http;
mod stories;

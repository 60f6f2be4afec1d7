//! The fence of a resource: no request passes that is older than one that has passed.

mod fixture;
mod grpc;
mod http;
mod model;
mod overtaken;
mod plain;
mod upgrades;

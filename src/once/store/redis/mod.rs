//! A store on a Redis server of its own.
//!
//! A store needs no quorum: one server that all replicas reach is enough, and losing it costs
//! responses only. A task on a thread of its own uses the same streams, login and TLS as nodes. A
//! value is the token, the SHA-256 of the key, and the response (`docs/wire-format.md`). The digest
//! detects a response stored under another key, which matters if a connection delivers a reply to no
//! request: each later reply would answer another request. So before each write, and after the last
//! reply, the connection is checked for unexpected data; then it is closed, and everything is sent
//! again over a new one. Data that arrives in between is detected by the digest: that `get` fails,
//! and the connection is closed. Each is a WARN.
//!
//! Requests made meanwhile join the next write; a request that was dropped is not sent. A reply that
//! ends a node's connection (`READONLY`, `LOADING`, a refused login) ends this one as well, and so
//! does a missing permission: the address may lead to another server by now, and a new connection
//! logs in with the current credentials. What was sent over an already open connection is sent once
//! more over the new one. A panic in a connector or a stream becomes the error of the request, and a
//! WARN; one in a callback for credentials becomes the error; the task continues.

mod builder;
mod client;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod store;
mod worker;

pub use builder::RedisStoreBuilder;
pub use store::RedisStore;

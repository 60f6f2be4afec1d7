//! [`RedlockLayer`](crate::RedlockLayer) over HTTP: lock errors are responses.
//!
//! The responses to rejected requests are made by [`reject`](crate::reject).
//!
//! # Upgrades
//!
//! The server owns an upgraded connection, so the layer cannot wrap it. The handler takes a handle
//! ([`HeldUpgrade`]) instead, and the layer moves the hold into it when the response passes. Only
//! then is further work polled under the hold, since one piece of work is polled at a time. A
//! response that upgrades without a handle is refused. To end the lock with the response, the handler
//! drops the handle.
//!
//! **Refused upgrades** must end the connection. Over HTTP/1.1, hyper keeps the pending upgrade after
//! any response, and completes it when the connection ends without an error. The handler awaits a
//! future that only hyper can cancel. Therefore, if the request may have asked for an upgrade, a
//! response of the layer after the handler started fails after its last byte
//! (`BodyError::NotUpgraded`), and hyper drops the pending upgrade. The announced length is one byte
//! longer, because hyper does not poll a body beyond its length. In HTTP/2 a stream is upgraded with
//! a 2xx response or never.
//!
//! Responses over HTTP/1.0, and requests without a route: `docs/decisions/010-http-responses.md`.

mod body;
mod buffered_response;
mod connection;
mod future;
pub(super) mod held_body;
mod read_first;
mod service;
mod settings;
mod upgrade;

pub use body::{BodyError, HttpBody};
pub use buffered_response::GATHER_LIMIT;
pub(crate) use connection::ConnectionUse;
pub use future::RedlockHttpFuture;
pub use read_first::{DEFAULT_BODY_TIMEOUT, ReadFirst, ReadFirstFuture};
pub use settings::{RedlockHttp, Streamed};
pub use upgrade::{HeldUpgrade, RunUpgrade};

//! [`RedlockLayer`](crate::RedlockLayer) over HTTP: lock errors are responses.
//!
//! The responses to rejected requests are made by [`reject`](crate::reject).

mod body;
mod buffered_response;
mod future;
pub(super) mod held_body;
mod read_first;
mod service;
mod upgrade;

pub use body::{BodyError, HttpBody};
pub use buffered_response::GATHER_LIMIT;
pub use future::RedlockHttpFuture;
pub use read_first::{DEFAULT_BODY_TIMEOUT, ReadFirst, ReadFirstFuture};
pub use service::{RedlockHttp, Streamed};
pub use upgrade::{HeldUpgrade, RunUpgrade};

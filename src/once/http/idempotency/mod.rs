//! Requests with an `Idempotency-Key`, whose first response is sent again.
//!
//! | part | where |
//! |---|---|
//! | settings | [`Idempotency`], `settings` |
//! | whose keys they are, and the name of a record | [`Scope`], [`Unscoped`], `host`, `key` |
//! | the future of a request | [`IdempotencyFuture`] |
//! | encodings and ranges: what the service is asked for | `accept_encoding` |
//! | the request under its lock: called, and its response kept | `capture`, `answered` |
//! | which requests are the same | `fingerprint` |
//! | which responses are kept | [`KeptStatuses`] |
//! | what is recorded, and sent again | `record`, `replay` |

mod accept_encoding;
mod answered;
mod capture;
mod fingerprint;
mod future;
mod host;
mod key;
mod record;
mod replay;
mod scope;
mod service;
mod settings;
mod statuses;

pub use future::IdempotencyFuture;
pub use scope::{Scope, Unscoped};
pub use settings::{DEFAULT_RESPONSE_LIMIT, Idempotency, OnNodes};
pub use statuses::KeptStatuses;

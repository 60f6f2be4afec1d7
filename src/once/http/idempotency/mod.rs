//! Requests with an `Idempotency-Key`, whose first response is sent again.
//!
//! | part | where |
//! |---|---|
//! | settings | [`Idempotency`], `builder` |
//! | whose keys they are, and the name of a record | [`Scope`], [`Unscoped`], `authority`, `name` |
//! | the future of a request | [`IdempotencyFuture`] |
//! | encodings and ranges: what the service is asked for | `negotiated` |
//! | the request under its lock: called, and its response kept | `keeping`, `answered` |
//! | which requests are the same | `same` |
//! | which responses are kept | [`KeptStatuses`] |
//! | what is recorded, and sent again | `first`, `again` |

mod again;
mod answered;
mod authority;
mod builder;
mod first;
mod future;
mod keeping;
mod name;
mod negotiated;
mod same;
mod scope;
mod service;
mod statuses;

pub use builder::{DEFAULT_RESPONSE_LIMIT, Idempotency, OnNodes};
pub use future::IdempotencyFuture;
pub use scope::{Scope, Unscoped};
pub use statuses::KeptStatuses;

//! Requests with an `Idempotency-Key`, whose first response is replayed.

mod accept_encoding;
mod capture;
mod fingerprint;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod host;
mod key;
mod payload;
mod record;
mod replay;
mod service;
mod settings;
mod statuses;

pub use key::{Scope, Unscoped};
pub use settings::{DEFAULT_RESPONSE_LIMIT, Idempotency};
pub use statuses::KeptStatuses;

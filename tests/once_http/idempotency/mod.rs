//! Requests with an `Idempotency-Key`.

mod callers;
mod large;
mod quota;
mod refused;
mod replay;
mod statuses;
mod stores;
pub(crate) mod tools;

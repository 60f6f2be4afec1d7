//! Requests with an `Idempotency-Key`.

mod callers;
pub(crate) mod connects;
mod defaults;
mod encodings;
mod hosts;
mod large;
mod quota;
mod refused;
mod replay;
mod same;
mod statuses;
mod stores;
pub(crate) mod tools;
mod turned_away;

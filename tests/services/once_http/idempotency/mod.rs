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
pub(crate) mod requests;
mod same;
mod statuses;
mod stores;
mod turned_away;

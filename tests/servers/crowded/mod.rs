//! Hundreds of clients, requests and locks at once. Each of these tests keeps all processors busy, so `scripts/test` runs
//! a few of them at a time, after the others.

mod costs;
mod herd;
mod line;
mod memory;
mod minority;
mod pause;
#[cfg(feature = "http")]
mod quota;
mod renewals;
#[cfg(feature = "http")]
mod requests;
mod waiters;

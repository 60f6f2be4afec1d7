//! Locks that are handed over within the process.

mod cases;
pub(crate) mod fixture;
mod limits;
mod linger;
mod records;
mod split;
mod stress;

//! Locks that are handed over within the process.

mod cases;
mod limits;
mod linger;
mod records;
pub(crate) mod scene;
mod split;
mod stress;
mod turns;

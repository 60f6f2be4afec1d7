//! Locks that are handed on within the process.

mod cases;
mod limits;
mod records;
pub(crate) mod scene;
mod split;
mod stress;
mod turns;
mod wall;

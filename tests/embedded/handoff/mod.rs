//! Locks that are handed on within the process.

mod cases;
mod limits;
mod records;
mod scene;
mod stress;
mod turns;

//! Bodies that are read whole and passed on unchanged.

mod model;
mod read;
mod scripted;
mod types;

//! Bodies that are read whole and passed on unchanged.
#![cfg(feature = "http")]

mod handed_on;
mod layer;
mod model;
mod read;
mod scripted;
mod site;
mod types;

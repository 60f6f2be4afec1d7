//! Bodies that are read whole and handed on as they were.
#![cfg(feature = "http")]

mod handed_on;
mod layer;
mod model;
mod read;
mod scripted;
mod site;
mod types;

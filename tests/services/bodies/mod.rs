//! Bodies that are read whole and passed on unchanged.

mod handed_on;
mod layer;
mod model;
mod read;
mod scripted;
mod site;
mod types;

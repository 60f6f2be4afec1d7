//! A subscriber and a metrics recorder that call the library at every event, span and value, and
//! wakers that call it when they are woken and dropped.

mod jobs;
mod local;
mod reenter;
mod servers;
#[path = "../support/mod.rs"]
mod support;

//! Invalid input is refused with a clear text, before anything is sent.

#[path = "../support/mod.rs"]
mod support;

mod addresses;
mod recorder;
mod requests;
mod secrets;
mod settings;
mod urls;

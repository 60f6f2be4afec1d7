//! Invalid input is refused with a clear text, before anything is sent.

#[allow(dead_code, reason = "the tools of other tests, of which only a part is used here")]
#[path = "../support/log.rs"]
mod log;
#[path = "../support/mod.rs"]
mod support;

#[cfg(feature = "redis-1")]
mod addresses;
mod layers;
mod recorder;
mod requests;
mod secrets;
mod settings;
mod urls;

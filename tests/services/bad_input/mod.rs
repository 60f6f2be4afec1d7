//! Invalid input is refused with a clear text, before anything is sent.

#[cfg(feature = "redis-1")]
mod addresses;
mod layers;
mod recorder;
mod requests;
mod secrets;
mod settings;
mod urls;

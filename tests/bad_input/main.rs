//! What makes no sense is refused with a clear text, and before anything is sent.

mod recorder;
mod requests;
mod secrets;
mod settings;
mod urls;

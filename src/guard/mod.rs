//! Runs one future under a lock, and stops it before the lock's validity ends.
//!
//! The clock is read immediately before every poll of the guarded work, and no poll begins at or
//! after the end of the validity. Pending work is dropped shortly before that, 3 ms on an idle machine,
//! as timers fire late, and is never polled again.
//!
//! This cannot stop code that blocks inside a poll, `spawn_blocking` work, and tasks that the work
//! spawned. For those, and for pauses that no clock of the process detects, pass the
//! [fencing token](LockContext::fencing_token) along with each write.

pub(crate) mod context;
#[cfg(feature = "http")]
pub(crate) mod contexts;
pub(crate) mod error;
mod guarded;
mod hold;
mod inside;
mod run;

pub(crate) use context::LockContext;
#[cfg(feature = "http")]
pub(crate) use contexts::LockContexts;
pub(crate) use error::GuardError;
pub(crate) use guarded::Guarded;
pub(crate) use hold::Hold;
#[cfg(feature = "http")]
pub(crate) use hold::Polled;
pub(crate) use inside::{Inside, is_inside};
pub use run::{Run, TryRun};

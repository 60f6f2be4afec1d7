//! Runs one future under a lock, and stops it before the lock's validity ends.
//!
//! The clock is read immediately before every poll of the guarded work, and no poll begins at or
//! after the end of the validity. Pending work is dropped shortly before that, 3 ms on an idle machine,
//! as timers fire late, and is never polled again.
//!
//! This cannot stop code that blocks inside a poll, `spawn_blocking` work, and tasks that the work
//! spawned. For those, and for pauses that no clock of the process detects, pass the
//! [fencing token](LockContext::fencing_token) along with each write.
//!
//! # The hold (P2)
//!
//! A call is polled under a hold, which moves from the future to the response: HTTP and gRPC put it
//! into the body, which is polled under the same checks. In every way in which a request can end, the
//! work and its body are dropped before the lock is released.
//!
//! **Late timers.** Timers fire late by their granularity (tokio's by up to 2 ms), and the woken
//! thread has to be scheduled. Therefore a lock is lost a *lead* before its end: the granularity,
//! plus 1 ms, as two threads are woken in turn, the crate's and the one that polls the work. On a busy
//! machine the work may be dropped later; it is not polled. The lead is at most an eighth of the
//! validity, so a TTL of 27 ms or more has the whole lead. It applies to the timer only: until it
//! fires, polls are compared with the end itself, `remaining()` counts down to it, and renewals
//! count. A poll that ends by the end is not an overrun. A clock with exact timers
//! ([`Clock::granularity`](crate::time::Clock::granularity) zero, such as a manual clock) has no
//! lead.
//!
//! The soft deadline has no timer in the lease: the future of `stopping()` sleeps until it, and then
//! checks whether a renewal moved it.
//!
//! # Invariants
//!
//! * The clock is read after the work is marked as being polled, and before each poll.
//! * Guarded work is never polled again after it was found to be over.
//! * The work is dropped before its lock is released.

pub(crate) mod context;
#[cfg(feature = "http")]
pub(crate) mod contexts;
pub(crate) mod error;
mod guarded;
mod hold;
mod run;

pub(crate) use context::LockContext;
#[cfg(feature = "http")]
pub(crate) use contexts::LockContexts;
pub(crate) use error::GuardError;
pub(crate) use guarded::Guarded;
pub(crate) use hold::{Hold, Polled};
pub use run::{Run, TryRun};

//! Mutexes, atomics, threads, wakers, and waits on a thread. No other module names the types of the standard library.
//!
//! Subscribers, metrics recorders and wakers may call this crate again: under a mutex they could
//! deadlock. Builds with debug assertions count the mutexes that a thread holds, and panic if an
//! event, a metric, a wake-up or a clone of a waker finds one held. Events are collected under a
//! mutex and reported after it is unlocked; for a node, by one thread at a time, in their order.
//! `log` sends events, `metrics` sends metrics, this module wakes tasks.
//!
//! With `--cfg redlock_shuttle` this module uses the types of the `shuttle` crate, so that
//! `verify/schedules` can explore the schedules of threads (`verify/schedules/README.md`). Other
//! builds have plain re-exports.

mod block_on;
mod mutex;
#[cfg(redlock_shuttle)]
mod scheduled;
mod types;
mod wakers;

pub(crate) use block_on::{block_on, block_on_with};
pub(crate) use mutex::{Guard, assert_unlocked, lock};
pub(crate) use types::*;
pub(crate) use wakers::{clone_waker, wake, wake_all, wake_by_ref};

//! Locks for threads without a runtime: [`Redlock::blocking`](crate::Redlock::blocking).
//!
//! Every method of this module that waits blocks its thread. Connections, timers and renewals run on
//! the manager's [own thread](crate::lock::ThreadSpawner), so none of this needs a runtime, and the
//! module no feature.
//!
//! ```
//! use std::time::Duration;
//! use tower_redlock::{LockError, Redlock};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // In production: Redlock::builder().nodes(["redis://10.0.0.1", …]).build()?
//!     let redlock = Redlock::embedded().blocking();
//!     redlock.ready_within(Duration::from_secs(60))?;
//!
//!     let request = redlock.lock("reindex").wait(Duration::from_secs(2));
//!     let pages = request.try_run(|cx| {
//!         for page in 0..3 {
//!             // An error from 3 ms before the validity ends.
//!             cx.ensure_valid()?;
//!             reindex(page, cx.fencing_token().get());
//!         }
//!         Ok::<_, LockError>(3)
//!     })?;
//!     assert_eq!(pages, 3);
//!
//!     redlock.shutdown();
//!     Ok(())
//! }
//! # fn reindex(_page: u32, _token: u64) {}
//! ```
//!
//! # No hard stop
//!
//! A future is dropped before the validity of its lock ends. A closure can't be stopped from outside:
//! it has to ask. [`LockContext::is_valid`](crate::LockContext::is_valid) becomes false, and
//! [`ensure_valid`](crate::LockContext::ensure_valid) returns an error, when a future would be
//! dropped: 3 ms before the end on an idle machine, and not later than the end.
//! [`is_stopping`](crate::LockContext::is_stopping) is true from `stop_margin` before that on.
//! What the closure does between two such checks may happen after the end of the lock, so
//!
//! * pass the [fencing token](crate::FencingToken) along with each write, to a resource that checks it;
//! * give each step a timeout that is shorter than the TTL;
//! * set [`overrun`](BlockingRequest::overrun) to [`Overrun::Abort`](crate::lock::Overrun) where a
//!   second writer is worse than the end of the process. By default the thread of the crate logs at
//!   WARN that the closure still runs.
//!
//! # Async contexts
//!
//! Where a thread is driving tasks of a tokio runtime, these methods panic, as the tasks would stop
//! meanwhile: await [`Redlock::lock`](crate::Redlock::lock) there. They may be called in
//! [`spawn_blocking`](tokio::task::spawn_blocking) and `block_in_place`. Other executors are not
//! detected.
//!
//! A manager with a [`RuntimeSpawner`](crate::lock::RuntimeSpawner) reaches no server and renews no lock
//! while nothing drives that runtime. Its waits end in time nevertheless, as the waiting thread fires its
//! timers.
//!
//! # The end of the process
//!
//! Dropping a lock releases it in the background. A process that ends before the release is sent leaves
//! its key until the TTL. [`run`](BlockingRequest::run), [`try_run`](BlockingRequest::try_run) and
//! [`release`](BlockingLock::release) wait until a quorum has acknowledged the release, and
//! [`shutdown`](Blocking::shutdown) waits for the releases of all locks.

mod handle;
mod lock;
mod request;
mod wait;

pub use handle::Blocking;
pub use lock::BlockingLock;
pub use request::BlockingRequest;

//! Locks over a set of nodes: the manager, requests, held locks, and their background work.
//!
//! | part | where |
//! |---|---|
//! | manager, builder, settings | [`Redlock`], [`RedlockBuilder`], `build`, `settings` |
//! | shared by attempts and leases: nodes, clocks, settings | `client` |
//! | shared by all handles of a manager | `core` |
//! | a request for a lock, its options and its future | [`LockRequest`], [`LockOptions`], [`Acquire`] |
//! | the crate-internal interface of a manager | `internal` |
//! | a held lock, its loss, its release | [`Lock`], [`Lost`], [`Release`], [`Stopping`] |
//! | the local line of requests | `queue` |
//! | waiting for other processes, and turns between processes (R5) | `wakeups` |
//! | checks for nodes that Sentinels or a Cluster locate | `named_nodes` |
//! | limit of attempts in flight (R5) | `attempts` |
//! | at most n holders of a name | `slots` |
//! | the algorithm of one lease, run against the nodes | `lease` |
//! | fencing tokens to propose (R9) | `fences` |
//! | the result of a release; ends that are sent until the nodes have acknowledged them | [`Released`]; `obligations` |
//! | requests of other processes for leases that linger here or are shared | `remote_requests` |
//! | the mark of an exclusive request that waits for shared leases (R16) | `wait_mark` |
//! | the end of another holder's lock, by a request | `revoke` |
//! | queries to all nodes; holders, claims, documents, records | `query`; `inspect`, `claims`, `documents`, `records` |
//! | enumeration of all locks (R3); of the locks of this process | `listing`; `snapshot` |
//! | counts of requests and losses, and waiting times | [`LockCounts`] |
//! | bounds on records, stored answers and waiting bodies | `quota` |
//! | whether enough nodes vote | [`NotReady`] |
//! | a test vote of one node | `test_vote` |
//! | changes on the servers of all sets | `all_sets` |
//! | calls from inside the work that they would wait for | `inside` |
//! | work that blocks or hangs | [`Overrun`], `overrun`, `stall` |
//! | when a refused caller should retry | `hold_times` |
//! | the span of a request | `trace` |
//! | tasks that wait for one event | `waker_set` |
//! | the thread that runs connections and timers | [`Spawner`] |
//!
//! # The background thread
//!
//! Connections, timers, renewals and repeated releases run on a thread of the crate's own
//! (`docs/decisions/002-background-thread.md`). Attempts, renewals, deadlines and pauses wait in
//! one ordered map (`time::timers`). A lease has one entry. It is moved only if it would fire too
//! late; an entry that fires early is checked again.
//!
//! # Invariants and deadlock safety
//!
//! * No foreign code runs under a mutex: events are collected under the mutex and reported after it
//!   is unlocked.
//! * A set of names joins the queues in the sorted order of its names, so overlapping sets cannot
//!   deadlock.
//! * Every lease that ends is released on every node that may keep its key, or its key has expired.
//! * A lost lock is not released until its work is dropped.

/// Implements [`Debug`](std::fmt::Debug) with the name of the type only.
macro_rules! opaque_debug {
    ($($type:ident),+) => {$(
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type)).finish_non_exhaustive()
            }
        }
    )+};
}

mod acquire;
mod all_sets;
mod attempts;
mod build;
pub(crate) mod builder;
mod busy_names;
#[cfg(feature = "scheduler")]
pub(crate) mod claims;
pub(crate) mod client;
mod core;
mod counts;
#[cfg(feature = "scheduler")]
pub(crate) mod documents;
mod fences;
mod hold_times;
mod inside;
mod inspect;
mod internal;
mod lease;
mod listing;
#[expect(clippy::module_inception, reason = "it is the held lock, among its parts")]
pub(crate) mod lock;
mod named_nodes;
pub(crate) mod obligations;
pub(crate) mod options;
mod outage;
mod overrun;
mod query;
mod queue;
mod quota;
mod readiness;
pub(crate) mod records;
pub(crate) mod redlock;
mod released;
mod remote_requests;
pub(crate) mod request;
mod revoke;
mod sets;
mod settings;
mod slots;
mod snapshot;
mod spawner;
mod stall;
mod test_vote;
mod trace;
mod wait_mark;
mod waker_set;
mod wakeups;

pub use crate::events::{LockEvent, LockEventKind};
pub use acquire::Acquire;
#[cfg(feature = "http")]
pub(crate) use build::{MAX_PREFIX_BYTES, check_text, spawner_or_thread};
pub(crate) use builder::RedlockBuilder;
#[cfg(feature = "http")]
pub(crate) use client::DetachedWork;
pub use counts::{LockCounts, WaitTimes};
pub(crate) use inside::{Inside, InsideScope, is_inside};
pub use inspect::{Holder, SharedHolder};
pub(crate) use lease::ActiveLease;
pub(crate) use lock::Lock;
#[cfg(feature = "scheduler")]
pub(crate) use lock::Renewals;
pub(crate) use lock::lease_getters;
pub use lock::{Lost, Release, Stopping};
pub use obligations::{Owed, OwedKind};
pub use options::Overrun;
pub(crate) use options::{LockOptions, option_setters};
#[cfg(feature = "once")]
pub(crate) use quota::RecordShare;
#[cfg(all(feature = "http", feature = "once"))]
pub(crate) use quota::WarnThrottle;
#[cfg(feature = "http")]
pub(crate) use quota::{BodyRoom, HeldBytes, NoRoom};
pub use readiness::NotReady;
pub(crate) use redlock::Redlock;
pub use released::Released;
pub(crate) use request::LockRequest;
pub use revoke::RevokeTarget;
pub use snapshot::{LocalLock, Snapshot, WaitingName};
pub use spawner::{RuntimeSpawner, Spawner, ThreadSpawner};
pub(crate) use waker_set::{WakerKey, WakerSet};
#[cfg(feature = "scheduler")]
pub(crate) use wakeups::SingleAttempts;

//! Locks over a set of nodes: the manager, requests, held locks, and what runs behind them.
//!
//! | part | where |
//! |---|---|
//! | manager, builder, settings | [`Redlock`], [`RedlockBuilder`], `build`, `settings` |
//! | what attempts and leases share: nodes, clocks, settings | `client` |
//! | what all handles of a manager share | `core` |
//! | a request for a lock, its options and its future | [`LockRequest`], [`LockOptions`], [`Acquire`] |
//! | what the rest of the crate uses of a manager | `internal` |
//! | a held lock, its loss, its release | [`Lock`], [`Lost`], [`Release`], [`Stopping`] |
//! | the local line of requests | `queue` |
//! | waiting for other processes, and fairness between processes | `wakeups` |
//! | nodes that Sentinels or a Cluster find | `named_nodes` |
//! | limit of attempts in flight | `attempts` |
//! | the algorithm of one lease, run against the nodes | `lease` |
//! | fencing tokens to propose | `fences` |
//! | repeated releases | `releaser` |
//! | queries to all nodes; holders, claims, records | `query`; `inspect`, `claims`, `records` |
//! | enumeration of all of them; those of this process | `listing`; `snapshot` |
//! | bounds on records, stored answers and waiting bodies | `quota` |
//! | whether enough nodes vote | [`NotReady`] |
//! | a test vote of one node | `test_vote` |
//! | work that blocks or hangs | [`Overrun`], `stall` |
//! | when a refused caller should come back | `hold_times` |
//! | the thread that runs connections and timers | [`Spawner`] |
//!
//! # The background thread
//!
//! Connections, timers, renewals and repeated releases run on a thread of the crate's own
//! (`docs/decisions/002-background-thread.md`). Attempts, renewals, deadlines and pauses wait in
//! one ordered map (`time::timers`). A lease has one entry. It is moved only if it would fire too
//! late; an entry that fires early is checked again.
//!
//! A fork copies everything but the threads, and mutexes in their state. Therefore the process id
//! is compared first, on the hot path once in 20 µs, which is less than a fork takes.
//!
//! # Load (R5)
//!
//! Attempts beyond what the nodes answer within the node timeout all time out, and retries without
//! a backoff keep it so after the cause is gone. Therefore an attempt needs a permit (`attempts`).
//! There are 256 at first. The limit grows by one for each attempt that a quorum decided within a
//! quarter of the node timeout (below 256: half of it) while others waited for a permit. It shrinks
//! by an eighth, to 256 at least, when a decision takes more than half of the node timeout, and by
//! half, to 32 at least, when attempts time out; at most once in a node timeout. First attempts and
//! retries get permits in turn. A single attempt waits for a permit for one node timeout at most,
//! and then fails with `Overloaded`. Consecutive attempts without a quorum of answers double the
//! pause, and a pause is at least the last wait for a permit. Retries that no release prompts are 1
//! ms apart on average over all waiters (0.25 ms where no quorum answers): each of 20,000 waiters
//! retries every 20 s, and once when the holder's key expires. Requests that wait for another
//! process count towards `max_waiters_in_total`.
//!
//! # Fencing tokens (R9)
//!
//! *The nodes' wall clock* is the latest time that the clocks of q connected nodes have reached
//! (the q-th largest). A minority of wrong clocks does not move it beyond a correct clock, and q
//! nodes accept a token made of it. A server's clock is known as an offset to the client's
//! monotonic clock, from the readings of R10; the client's wall clock and its jumps play no part.
//! The client's wall clock is used only for nodes without a clock of their own, and before the
//! first connection: an attempt of a client that is far ahead fails then, and the error says so.
//! The clocks are compared at each health check. If q servers agree, a clock (of the client or a
//! server) that is off by more than 60 s is logged once, and shown in `health()` (`Finding`) until
//! it is right. Embedded nodes read a wall clock that is never set back.
//!
//! Only numbers that a node accepted or reported are remembered (`fences`). Proposals of attempts
//! in flight are reserved, so that other attempts of the process propose other numbers; a
//! reservation more than 1 s ahead of the clock and the known fences is ignored. A known fence more
//! than 60 s ahead of the nodes' clock is forgotten: the clock went back, and no node accepts a
//! token above it. If a quorum keeps such fences (the clocks of a majority were ahead together),
//! the names used meanwhile get no token until real time is within 60 s of them.
//!
//! Two bounds keep one fault from affecting everything. No node gets a token more than 60 s ahead
//! of its own clock: a client compares an acquire's with its reading of that clock, and the script
//! of a raise with the clock itself. A fence beyond that (of a node whose clock was wrong once) is
//! not followed: the client proposes the nodes' clock, and raises above the fences of the other
//! nodes, which suffice. And a resource that is leased more than 3,906 times a second would outrun
//! the clock with blocks of 256; blocks shrink to 32 and to one token as the lead grows beyond 1 s
//! and 50 s. The tokens of a new set start 60 s ahead (R6), and have whole blocks until then.
//!
//! # Releases without an answer (R8)
//!
//! A release that is not final is repeated in the background (`releaser`), at most until the key
//! has expired: to a silent node one at a time with an increasing backoff, to a node that answers
//! in batches.
//!
//! # Listing (R3)
//!
//! A listing reads the names of one node after the other, as every quorum has one of any N−q+1
//! nodes, and then the keys of each new name on all nodes. A name that a single quorum keeps during
//! the whole listing is found once; with fewer than N−q+1 nodes read to the end the listing fails.
//!
//! # Overruns
//!
//! Work is marked as being polled *before* the clock is compared with the deadline. The background
//! thread reads the mark when a lock ends, and again when the servers may have dropped the key (one
//! drift allowance later). A poll that is still running is an overrun: it is reported, or ends the
//! process.
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
mod attempts;
mod build;
pub(crate) mod builder;
#[cfg(feature = "scheduler")]
pub(crate) mod claims;
pub(crate) mod client;
mod core;
#[cfg(feature = "scheduler")]
pub(crate) mod documents;
mod fences;
mod hold_times;
mod inspect;
mod internal;
mod lease;
mod linger;
mod listing;
#[expect(clippy::module_inception, reason = "it is the held lock, among its parts")]
pub(crate) mod lock;
mod named_nodes;
pub(crate) mod options;
mod overrun;
mod query;
mod queue;
mod quota;
mod readiness;
pub(crate) mod records;
pub(crate) mod redlock;
mod released;
mod releaser;
pub(crate) mod request;
mod revoke;
mod settings;
mod snapshot;
mod spawner;
mod stall;
mod test_vote;
mod waker_set;
mod wakeups;

pub use crate::events::{LockEvent, LockEventKind};
pub use acquire::Acquire;
#[cfg(feature = "http")]
pub(crate) use build::{MAX_PREFIX_BYTES, check_text, spawner_or_thread};
pub(crate) use builder::RedlockBuilder;
#[cfg(feature = "http")]
pub(crate) use client::DetachedWork;
pub use inspect::Holder;
pub(crate) use lease::ActiveLease;
pub(crate) use lock::Lock;
#[cfg(feature = "scheduler")]
pub(crate) use lock::Renewals;
pub use lock::{Lost, Release, Stopping};
pub(crate) use options::LockOptions;
pub use options::Overrun;
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

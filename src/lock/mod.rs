//! Locks over a set of nodes: the manager, requests, held locks, and what runs behind them.
//!
//! | part | where |
//! |---|---|
//! | manager, builder, settings | [`Redlock`], [`RedlockBuilder`], `build`, `settings` |
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
mod releaser;
pub(crate) mod request;
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
pub(crate) use core::DetachedWork;
pub use inspect::{Holder, RevokeTarget};
pub(crate) use lease::ActiveLease;
pub(crate) use lock::Lock;
#[cfg(feature = "scheduler")]
pub(crate) use lock::Renewals;
pub use lock::{Lost, Release, Released, Stopping};
pub(crate) use options::LockOptions;
pub use overrun::Overrun;
#[cfg(feature = "http")]
pub(crate) use quota::{BodyRoom, HeldBytes, NoRoom};
pub use readiness::NotReady;
pub(crate) use redlock::Redlock;
pub(crate) use request::LockRequest;
pub use snapshot::{LocalLock, Snapshot, WaitingName};
pub use spawner::{RuntimeSpawner, Spawner, ThreadSpawner};
pub(crate) use waker_set::{WakerKey, WakerSet};
#[cfg(feature = "scheduler")]
pub(crate) use wakeups::SingleAttempts;

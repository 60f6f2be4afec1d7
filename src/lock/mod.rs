//! Locks over a set of nodes: the manager, a request, a held lock, and what goes on behind them.
//!
//! | part | where |
//! |---|---|
//! | manager, builder, settings | [`Redlock`], [`RedlockBuilder`] |
//! | a request for a lock, its options and its future | [`LockRequest`], [`LockOptions`], [`Acquire`] |
//! | a held lock, its loss, its release | [`Lock`], [`Lost`], [`Release`] |
//! | the line of local waiters | `queue` |
//! | a bound on attempts under way | `attempts` |
//! | asking guarded work to stop, and what is done when it does not | [`Stopping`], [`Overrun`] |
//! | whether enough nodes vote, and why not | [`NotReady`] |
//! | claims of jobs' ticks | `claims` |
//! | records of work that is done, and how many there may be | `records`, `quota` |
//! | work that goes on without its caller | `detached` |
//! | a bound on bodies that are read before their locks | `body_room` |
//! | finding out that the work hangs, telling of renewals | `stall`, `renewals` |
//! | runs the algorithm of one lease against the nodes | `lease` |
//! | repeats releases that were not acknowledged | `releaser` |
//! | the thread that moves bytes and fires timers | [`Spawner`] |

mod acquire;
mod ask;
mod attempts;
#[cfg(feature = "http")]
mod body_room;
mod builder;
#[cfg(feature = "scheduler")]
pub(crate) mod claims;
mod core;
mod detached;
mod fences;
mod held;
mod inspect;
mod lease;
mod lost;
mod options;
mod overrun;
mod queue;
mod quota;
mod readiness;
pub(crate) mod records;
mod redlock;
mod release;
mod releaser;
#[cfg(feature = "scheduler")]
mod renewals;
mod request;
mod revoke;
mod settings;
mod spawner;
mod stall;
mod stopping;
mod told;
mod usual;
mod wakeups;
mod watchers;

pub use acquire::Acquire;
#[cfg(feature = "http")]
pub(crate) use body_room::{BodyRoom, HeldBytes, NoRoom};
pub use builder::RedlockBuilder;
pub(crate) use core::Core;
#[cfg(feature = "http")]
pub(crate) use detached::DetachedWork;
pub use held::Lock;
pub use inspect::Holder;
pub(crate) use inspect::inspect;
pub(crate) use lease::ActiveLease;
pub use lost::Lost;
pub use options::LockOptions;
pub use overrun::Overrun;
pub use readiness::NotReady;
pub use redlock::Redlock;
pub use release::{Release, Released};
#[cfg(feature = "scheduler")]
pub(crate) use renewals::Renewals;
pub use request::LockRequest;
pub use revoke::RevokeTarget;
pub use spawner::{Spawner, ThreadSpawner};
pub use stopping::Stopping;
#[cfg(feature = "scheduler")]
pub(crate) use wakeups::SingleAttempts;
pub(crate) use watchers::{Watch, Watchers};

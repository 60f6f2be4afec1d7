//! Waiting for a name that another process holds, without asking again and again.
//!
//! | part | where |
//! |---|---|
//! | names with waiters, and their subscriptions | `registry` |
//! | releases of one name, as the nodes report them | `release_watch` |
//! | whether a name may be free, from those reports | `release_status` |
//! | the pause between two tries | `pause` |
//! | the next try, begun where the pause ends | `retry_task` |
//! | single attempts, and pauses between them that a release ends | `single` |
//! | how long this process may keep a name that others wait for | `fairness` |
//! | the pause that lets those others go first | `yielding` |

mod fairness;
mod pause;
mod registry;
mod release_status;
mod release_watch;
mod retry_task;
#[cfg(feature = "scheduler")]
mod single;
mod yielding;

pub(super) use pause::RetryHistory;
pub(crate) use registry::Wakeups;
pub(super) use retry_task::{Begun, RetryState, RetryTask, Wait};
#[cfg(feature = "scheduler")]
pub(crate) use single::SingleAttempts;
pub(super) use yielding::Yield;

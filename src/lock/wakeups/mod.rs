//! Waiting for a name that another process holds, without asking again and again.
//!
//! | part | where |
//! |---|---|
//! | names with waiters, and their subscriptions | `registry` |
//! | releases of one name, and whether it may be free | `release_watch` |
//! | the pause between two tries | `pause` |
//! | the task that begins the next try | `retry_task` |
//! | single attempts, and the pauses between them | `single` |
//! | how long this process may keep a name, and the pause for others | `fairness` |

mod fairness;
mod pause;
mod registry;
mod release_watch;
mod retry_task;
#[cfg(feature = "scheduler")]
mod single;

pub(super) use fairness::Yield;
pub(super) use pause::RetryHistory;
pub(crate) use registry::Wakeups;
pub(super) use retry_task::{RetryState, RetryTask, RetryWait, StartedTry};
#[cfg(feature = "scheduler")]
pub(crate) use single::SingleAttempts;

//! Waiting for a name that another process holds, without asking again and again.
//!
//! | part | where |
//! |---|---|
//! | which names are listened for, and until when | `registry` |
//! | what the nodes told of one name | `vigil` |
//! | when to try again, and whom to ask first | `outlook` |
//! | the pause between two tries | `pause` |
//! | the next try, begun where the pause ends | `standby` |
//! | single attempts, and pauses between them that a release ends | `single` |
//! | names that this process keeps to itself, while others wait | `rows` |
//! | giving way to those others | `way` |

mod outlook;
mod pause;
mod registry;
mod rows;
#[cfg(feature = "scheduler")]
mod single;
mod standby;
mod vigil;
mod way;

pub(super) use pause::Retries;
pub(crate) use registry::Wakeups;
#[cfg(feature = "scheduler")]
pub(crate) use single::SingleAttempts;
pub(super) use standby::{Begun, Standby, Tries, Wait};
pub(super) use way::Way;

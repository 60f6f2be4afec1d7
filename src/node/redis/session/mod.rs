//! One connection in use: sends batches of operations and reads their answers.
//!
//! | part | where |
//! |---|---|
//! | writing operations, and reading replies | [`Session`] |
//! | operations that wait for room; batches that wait for replies | `send_queue`; `sent_batch` |
//! | the replies to a batch | `answers` |
//! | refused votes | `votes` |
//! | health checks | `health_check` |

mod answers;
mod health_check;
mod send_queue;
mod sent_batch;
#[expect(clippy::module_inception, reason = "the file of the type that the module is about")]
mod session;
mod votes;

pub(super) use session::{NodeChannels, Session, SessionEnd};

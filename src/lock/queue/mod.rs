//! The local line of requests for a name, first come first served.
//!
//! Only the head of a line sends attempts to the nodes, so that a process has one contender for a
//! name. Requests for a single attempt take over the head's verdict. A holder may hand its lease on
//! to the first waiter.
//!
//! | part | where |
//! |---|---|
//! | the line of one name | `line` |
//! | all lines of a manager, and the way to their heads | `queue` |
//! | the turn at the heads | `ticket` |
//! | what is held and waited for at one moment | `snapshot` |

mod line;
#[expect(clippy::module_inception, reason = "it is the queue, among its parts")]
mod queue;
mod snapshot;
mod ticket;

pub(crate) use line::LeftWaiters;
pub(crate) use queue::{Admission, CountedWaiter, Queue, QueueWait};
pub(crate) use ticket::Ticket;

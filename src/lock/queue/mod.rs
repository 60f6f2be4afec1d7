//! The local line of requests for a name, first come first served.
//!
//! Only the head of a line sends attempts to the nodes, so that a process has one contender for a
//! name. Requests for a single attempt take over the head's verdict. A holder may hand its lease on
//! to the first waiter.
//!
//! | part | where |
//! |---|---|
//! | what it needs of a lease | `held_lease` |
//! | the line of one name | `line` |
//! | all lines of a manager, and the way to their heads | `queue` |
//! | the turn at the heads | `ticket` |
//! | what is held and waited for at one moment | `snapshot` |
//!
//! # The queue of a name (R5)
//!
//! Within a process each name has a queue, first come first served, and only its head asks the
//! servers. A single attempt during the head's first attempt shares the head's verdict. A set of
//! names joins the queues in the sorted order of its names. The number of waiting requests is
//! limited here, where it is cheap: a full queue refuses the next request with what it knows of the
//! holder, and asks no server.

mod held_lease;
mod line;
#[expect(clippy::module_inception, reason = "it is the queue, among its parts")]
mod queue;
mod snapshot;
mod ticket;

pub(crate) use held_lease::HeldLease;
pub(crate) use line::LeftWaiters;
pub(crate) use queue::{Admission, CountedWaiter, Queue, QueueWait};
pub(crate) use ticket::Ticket;

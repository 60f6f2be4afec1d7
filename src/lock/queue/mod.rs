//! The local line of requests for a name, first come first served (R5).
//!
//! Only the head of a line sends attempts to the nodes, so that a process has one contender for a
//! name. A single attempt that joins during the head's first attempt shares the head's verdict. A
//! holder may hand its lease on to the first waiter. A set of names joins the lines in the sorted
//! order of its names. The number of waiting requests is limited here, where it is cheap: a full
//! line refuses the next request with the known state of the holder, and asks no server.
//!
//! | part | where |
//! |---|---|
//! | the interface of the lease at the head | `held_lease` |
//! | the line of one name | `line` |
//! | all lines of a manager, and the wait for their heads | `queue` |
//! | the turn at the heads | `ticket` |
//! | hand-offs of slots | `stand_by` |
//! | the leases and waiting names at one moment | `contents` |

mod contents;
mod held_lease;
mod line;
#[expect(clippy::module_inception, reason = "it is the queue, among its parts")]
mod queue;
mod stand_by;
mod ticket;

pub(crate) use held_lease::HeldLease;
pub(crate) use line::LeftWaiters;
pub(crate) use queue::{Admission, CountedWaiter, Queue, QueueWait};
pub(crate) use ticket::Ticket;

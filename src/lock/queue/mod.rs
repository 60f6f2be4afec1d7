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
//! | the lines, their waiters, and the turn at their heads: the types | `line` |
//! | the wait for the head of a line, and the verdicts of heads | `queue` |
//! | the turn: reports, hand-offs to waiters, hand-offs of slots | `ticket` |

mod line;
#[expect(clippy::module_inception, reason = "it is the queue, among its parts")]
mod queue;
mod ticket;

pub(crate) use line::{HandedOn, Queue, Ticket};
pub(crate) use queue::{Admission, CountedWaiter, QueueWait};

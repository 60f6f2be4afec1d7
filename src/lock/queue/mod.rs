//! The line of those who want a name within this process, first come first served.
//!
//! Only who stands at the head asks the servers, so that a process contends for a name with one
//! voice. Who does not want to wait takes over what the head finds out. A holder that gives back
//! may hand its lease on to the first in line.
//!
//! | part | where |
//! |---|---|
//! | one name: who waits, what the head does | `line` |
//! | a list that is left from anywhere at once | `list` |
//! | all lines of a manager | `queue` |
//! | the way to the head | `queueing` |
//! | the turn at the head, until it is passed on | `ticket` |

mod line;
mod list;
#[expect(clippy::module_inception, reason = "it is the queue, among its parts")]
mod queue;
mod queueing;
#[cfg(test)]
mod tests;
mod ticket;

pub(crate) use line::Left;
pub(super) use list::{Key, List};
pub(crate) use queue::{Queue, Waiting};
pub(crate) use queueing::{Queueing, Turn};
pub(crate) use ticket::Ticket;

//! The algorithm, without a socket, a timer, a clock or a random number in it.
//!
//! A [`Lease`] is one attempt to hold a resource and all that follows from it: the votes, the
//! fencing token, the renewals, the loss, the release. It takes an [`Event`] and the present
//! moment, and answers with [`Action`]s. The same code runs in production and under test.
//!
//! | rule | where |
//! |---|---|
//! | when the lock is held, when an attempt is over, and with which verdict | `acquire` |
//! | one node is asked first, so that one contender wins | `lead_node` |
//! | the fencing token | `fence` |
//! | renewal, expiry, theft | `renew` |
//! | the next holder within the process | `handoff` |
//! | giving back, and who acknowledged it | `release` |
//! | keys that a node may still keep for us | [`backlog`] |
//! | which tick of a job was started last | [`claims`] |
//! | whether the work of a name is done | [`records`] |

mod acquire;
pub mod backlog;
mod ballot;
pub mod claims;
mod event;
mod fence;
mod handoff;
mod lead_node;
mod lease;
pub mod records;
mod release;
mod renew;
#[cfg(test)]
mod tests;

pub use event::{Action, Command, Event, Halt, Loss, Refusal, ReleaseVerdict};
pub use handoff::{HandOff, NextHolder};
pub use lead_node::LeadNode;
pub use lease::{Lease, Terms};

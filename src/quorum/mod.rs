//! The algorithm, without a socket, a timer, a clock or a random number in it.
//!
//! A [`Lease`] is one attempt to hold a resource and all that follows from it: the votes, the
//! fencing token, the renewals, the loss, the release. It takes an [`Event`] and the present
//! moment, and returns [`Action`]s. The same code runs in production and under test.
//!
//! | rule | where |
//! |---|---|
//! | inputs and outputs | `event` |
//! | phases, hand-off, release | `lease` |
//! | the lead node, verdicts | `attempt` |
//! | renewal, expiry, theft | `renewal` |
//! | one node's answers; all nodes' | `ballot`; `ballots` |
//! | the fencing token | `token_rounds` |
//! | releases that a node has not acknowledged | [`pending_releases`] |
//! | the latest run of a job | [`claims`] |
//! | whether the work of a name is done | [`records`] |

mod attempt;
mod ballot;
mod ballots;
pub(crate) mod claims;
mod event;
mod lease;
pub(crate) mod pending_releases;
pub(crate) mod records;
mod renewal;
#[cfg(test)]
mod tests;
mod token_rounds;

pub(crate) use event::{
    Action, Event, Halt, HandOff, LeadNode, LeaseCommand, LeaseParams, Loss, NextHolder, Refusal,
    ReleaseVerdict,
};
pub(crate) use lease::Lease;

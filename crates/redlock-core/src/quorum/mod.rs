//! The algorithm of one lease, as pure state machines: no socket, timer, clock or random number.
//!
//! A [`Lease`] is one attempt to hold a resource and all that follows from it: the votes, the
//! fencing token, the renewals, the loss, the release. It takes an [`Event`] and the present
//! moment, and returns [`Action`]s. The same code runs in production and under test.
//!
//! | rule | where |
//! |---|---|
//! | inputs and outputs | `event` |
//! | phases, hand-off, release | `lease` |
//! | R1–R3: acquire, decide, release; the lead node | `attempt` |
//! | R4: renewal, expiry, theft; R10: clock jumps | `renewal` |
//! | one node's answers; all nodes' answers | `ballot`; `ballots` |
//! | R9: fencing tokens | `token_rounds` |
//! | R8: releases without an answer | [`backlog`] |
//! | R12: the latest run of a job | [`claims`] |
//! | R13: whether the work of a name is done | [`records`] |
//!
//! N nodes, q = ⌊N/2⌋+1, validity = TTL − slack ([`slack`](crate::protocol::formulas::slack)).
//!
//! # Invariants
//!
//! * At most one lease holds a resource: a lease is held only while q nodes have kept its key from
//!   a start less than a validity ago.
//! * The end of a lease moves forward only by answers of a quorum, and never after it has passed.
//! * A hand-off or a linger changes neither the nodes nor the end. The former holder's validity is
//!   zero before the next one's begins.
//! * A token is accepted by q nodes under one number, and no later lease of the stripe gets one at
//!   or below it.
//! * No release is forgotten before the key has expired on the node.

mod attempt;
pub mod backlog;
mod ballot;
mod ballots;
pub mod claims;
mod event;
mod lease;
pub mod records;
mod renewal;
#[cfg(test)]
mod tests;
mod token_rounds;

pub use event::{
    Action, Event, Halt, HandOff, LeadNode, LeaseCommand, LeaseParams, Loss, NextHolder, Refusal,
    ReleaseVerdict,
};
pub use lease::Lease;

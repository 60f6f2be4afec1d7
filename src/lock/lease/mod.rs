//! Runs the algorithm of one lease: feeds it events, and carries out its actions.
//!
//! A lease, as the nodes know it, is held by consecutive grants of this process, one at a time; by
//! any number of grants at a time if it is a shared lease.
//!
//! | part | where |
//! |---|---|
//! | one grant, or the attempt at one, as the rest of the crate has it | `active` |
//! | what a holder and its lease show each other without a mutex | `signals` |
//! | the phases of a grant, and all grants under one lease | `grants` |
//! | the lease: its state, its turn and its events | `local` |
//! | the end of a grant: hand-off, linger, or release to the nodes | `release` |
//! | grants beside each other under a shared lease | `sharing` |
//! | what other processes want of the lease | `other_requests` |
//! | carrying out the algorithm's actions | `actions` |
//! | what is logged and counted | `report` |
//!
//! # Hand-off (R5)
//!
//! A released lock goes to the next request in the queue without a message, if that request wants
//! exactly these names with the same TTL: at most `handoff_limit` (20) times, within 100 ms of the
//! lease's grant, while half of the validity and a token of the block are left, and if no server's
//! clock has jumped since. Nothing changes on the nodes. The end of the validity stays the one that
//! a quorum confirmed, and the former holder's validity is zero before the next one holds. A holder
//! with records (`once`) neither takes over nor hands on a lease, because records identify holders
//! by the lease's nonce.

mod actions;
mod active;
mod grants;
mod local;
mod other_requests;
mod release;
mod report;
mod sharing;
mod signals;

pub(crate) use active::ActiveLease;
pub(crate) use local::LocalLease;
#[cfg(test)]
pub(crate) use signals::PollGuard;

//! Runs the algorithm of one lease: feeds it events, and carries out its actions.
//!
//! A lease, as the nodes know it, is shared by consecutive grants of this process, one at a time.
//!
//! | part | where |
//! |---|---|
//! | one grant, from the attempt to the release | `active` |
//! | polls of futures, stop requests, heartbeats, stall checks | `signals` |
//! | a grant's part of the shared state | `grant` |
//! | the lease that grants share: its events, and hand-offs | `shared` |
//! | a lease that waits for the next request of its process | `linger` |
//! | carrying out the algorithm's actions | `actions` |

mod actions;
mod active;
mod grant;
mod linger;
mod shared;
mod signals;

pub(crate) use active::ActiveLease;
#[cfg(test)]
pub(crate) use active::PollGuard;
pub(crate) use shared::SharedLease;

//! Runs the algorithm of one lease: feeds it events, carries out its actions.
//!
//! | part | where |
//! |---|---|
//! | the lease, from its start to its release | `active` |
//! | carrying out what the algorithm decides | `execute` |
//! | answers of nodes and timers come in | `inlet` |
//! | futures watch it | `watching` |
//! | what the holder says, and what is said of it | `holder` |

mod active;
mod execute;
mod holder;
mod inlet;
mod watching;

pub(crate) use active::ActiveLease;
#[cfg(test)]
pub(crate) use active::InPoll;

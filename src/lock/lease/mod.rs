//! Runs the algorithm of one lease: feeds it events, carries out its actions.
//!
//! A lease, as the nodes know it, is shared by the grants that follow each other under it: at most
//! one at a time, each an object of its own to its holder.
//!
//! | part | where |
//! |---|---|
//! | one grant, from its start to its end | `active` |
//! | what grants under one lease have in common | `shared` |
//! | giving back: to the next holder of this process, or to the nodes | `handoff` |
//! | carrying out what the algorithm decides | `execute` |
//! | sending it to the nodes, in order | `sending` |
//! | answers of nodes and timers come in | `inlet` |
//! | futures watch it | `watching` |
//! | what the holder says, and what is said of it | `holder` |

mod active;
mod execute;
mod handoff;
mod holder;
mod inlet;
mod sending;
mod shared;
#[cfg(all(test, feature = "testing"))]
mod tests;
mod watching;

pub(crate) use active::ActiveLease;
#[cfg(test)]
pub(crate) use active::InPoll;

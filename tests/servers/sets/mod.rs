//! Everything that a manager over several sets of servers does: each set alone keeps the promises for its
//! names, also while another set is down.
//!
//! | what | where |
//! |---|---|
//! | two sets of three servers, and a name in each | `fixture` |
//! | revoking, listing, the forms of a lock | `locks` |
//! | leaders | `leaders` |
//! | jobs of a scheduler; ticks, commands and documents | `jobs`, `fleet` |
//! | moves to other servers, a lower `max_ttl` | `moves`, `lowering` |
//! | names that are given by position | `shifted` |

#[cfg(feature = "scheduler")]
mod fleet;
#[cfg(feature = "scheduler")]
mod jobs;
#[cfg(feature = "scheduler")]
mod leaders;
mod locks;
mod lowering;
mod moves;
mod shifted;

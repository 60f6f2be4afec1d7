//! Examples, one for each rule.
//!
//! | what | where |
//! |---|---|
//! | a lease on a bench, and short names for what happens to it | `bench` |
//! | held, refused, and what is said of it | `attempt` |
//! | the fencing token | `fence` |
//! | renewal, extension, loss | `renewal` |
//! | several rounds of renewal at once | `rounds` |
//! | clocks that jumped | `clocks` |
//! | another holder of the same process | `handoff` |
//! | giving back | `release` |
//! | one node is asked first | `lead_node` |
//! | servers that name each other, and those that do not | `views` |

#![expect(clippy::unnecessary_wraps, reason = "what a node says is written as it arrives")]

mod attempt;
mod bench;
mod clocks;
mod fence;
mod handoff;
mod lead_node;
mod release;
mod renewal;
mod rounds;
mod views;

//! Examples, one for each rule.
//!
//! | what | where |
//! |---|---|
//! | a lease under test, and short names for its events | `fixture` |
//! | held, refused, and the verdict | `attempt` |
//! | the fencing token | `fence` |
//! | renewal, extension, loss | `renewal` |
//! | several rounds of renewal at once | `rounds` |
//! | clocks that jumped | `clocks` |
//! | the next holder of the process | `handoff` |
//! | a lease that waits for the next holder | `linger` |
//! | release | `release` |
//! | the lead node | `lead_node` |
//! | servers with equal views, and with others | `views` |

#![expect(clippy::unnecessary_wraps, reason = "what a node says is written as it arrives")]

mod attempt;
mod clocks;
mod fence;
mod fixture;
mod handoff;
mod lead_node;
mod linger;
mod release;
mod renewal;
mod rounds;
mod views;

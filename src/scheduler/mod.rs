//! Periodic jobs: each tick is run by one replica of the fleet.
//!
//! | part | where |
//! |---|---|
//! | what is done about missed, overlapping and broken-off runs | [`Missed`], [`Overlap`], [`Claim`] |
//! | what a job does next, without a clock | `policy` |

mod options;
#[cfg_attr(not(test), allow(dead_code, unused_imports, reason = "asked by the driver"))]
mod policy;

pub use options::{Claim, Missed, Overlap};

//! What a scheduler does beside its jobs' ticks: it leads, reads what other replicas and people did, and
//! forgets jobs that nothing uses.
//!
//! | part | where |
//! |---|---|
//! | the leadership of a whole scheduler | `election` |
//! | the jobs of the leader, as the others compare them | `leader_jobs` |
//! | pauses and requests of the fleet, runs of other replicas | `watch` |
//! | jobs that nothing uses any more | `expiry` |

mod election;
mod expiry;
mod leader_jobs;
mod watch;

pub use election::Candidate;
pub(super) use election::lead;
pub(super) use expiry::{UNUSED_FOR, forget_unused};
pub(super) use leader_jobs::watch_leader;
pub(super) use watch::{read_controls, watch_controls, watch_runs_elsewhere};

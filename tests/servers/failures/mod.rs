//! Failures of servers, and their effect on locks: a failing minority has no effect, a
//! failing majority is an error that names each node's reason.

mod claims;
mod events;
mod evicting;
pub(crate) mod fake;
mod flushed;
mod full;
mod health;
mod hostile;
mod hung;
mod leftovers;
#[path = "../../support/log.rs"]
pub(crate) mod log;
mod nonsense;
mod outage;
mod passwords;
mod permissions;
pub(crate) mod refusing;
mod scene;
mod tokens;
mod traces;
mod unsent;
mod votes;

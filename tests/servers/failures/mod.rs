//! Failures of servers, and their effect on locks: a failing minority has no effect, a
//! failing majority is an error that names each node's reason.

mod claims;
mod evicting;
mod flushed;
mod full;
mod health;
mod hostile;
mod hung;
mod leftovers;
mod nonsense;
mod outage;
mod passwords;
mod permissions;
pub(crate) mod refusing;
mod tokens;
mod traces;
mod votes;

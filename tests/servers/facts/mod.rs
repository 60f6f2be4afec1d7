//! What servers do on bad days, and what becomes of the lock then: a bad minority costs nothing, a
//! bad majority is an error that names each node's reason.

mod claims;
mod evicting;
pub(crate) mod fake;
mod flushed;
mod full;
mod health;
mod hung;
#[path = "../../support/log.rs"]
pub(crate) mod log;
mod nonsense;
mod outage;
mod passwords;
mod permissions;
mod refusing;
mod scene;
mod traces;
mod unsent;
mod votes;

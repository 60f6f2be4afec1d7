//! Shared code of the programs that check the crate over real servers.
#![allow(clippy::missing_panics_doc, reason = "the programs are the only callers")]

pub mod ask;
pub mod belief;
pub mod checker;
pub mod driver;
pub mod history;
pub mod ledger;
pub mod locks;
pub mod message;
pub mod observations;
pub mod plain;
pub mod program;
pub mod random;
pub mod resource;
pub mod server;
pub mod standing;
pub mod stop;
pub mod support;
pub mod worker;

//! Shared code of the programs that check the crate over real servers.
#![allow(clippy::missing_panics_doc, reason = "the programs are the only callers")]

pub mod ask;
pub mod belief;
pub mod checker;
pub mod clocks;
pub mod history;
pub mod launch;
pub mod locks;
pub mod plain;
pub mod random;
pub mod standing;
pub mod stop;
pub mod support;
pub mod task;
pub mod workers;

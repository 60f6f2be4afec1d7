//! Names that Sentinels or a Cluster resolve: which server a node is at present.
//!
//! A node is then whoever serves now. A directory is asked all the time, so that a failover is noticed
//! while the connection to the former server still stands. The server that is found is one that may
//! have forgotten (R6), under a name that moved (R14): nothing depends on a directory being right.

mod cluster;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzzing;
mod location_reports;
mod lookup;
mod sentinel;
mod slot;

pub(crate) use lookup::{Directory, DirectoryKind};
pub(crate) use slot::{hash_tag, slot_of};

use super::Address;

/// Where a server was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) address: Address,
    /// The configuration by which it is there; a later one may have it elsewhere.
    pub(crate) epoch: u64,
    /// Whether somebody says so at present.
    pub(crate) is_fresh: bool,
}

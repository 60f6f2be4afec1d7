//! Names that Sentinels or a Cluster resolve: which server a node is at present.
//!
//! A node is then the server that the directory reports at present. The directory's servers are
//! queried at intervals, so that a failover is noticed while the former server is still connected.
//! The reported server is treated as one that may have forgotten (R6), under a name that moved
//! (R14): nothing depends on a correct report.
//!
//! | part | where |
//! |---|---|
//! | the queried servers and their current result | [`Directory`] |
//! | the task that queries them | [`DirectoryLookup`] |
//! | which report counts | `location_reports` |
//! | what a Sentinel, or a node of a Cluster, answers | `sentinel`, `cluster` |
//! | the hosts that they may name | [`AllowedHosts`] |

mod allowed_hosts;
mod cluster;
#[expect(clippy::module_inception, reason = "the module's main type")]
mod directory;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzzing;
mod location_reports;
mod lookup;
mod sentinel;
mod slot;

pub(crate) use allowed_hosts::AllowedHosts;
pub(crate) use directory::{Directory, DirectoryKind};
pub(crate) use lookup::DirectoryLookup;
pub(crate) use slot::{hash_tag, slot_of};

use super::Address;

/// The location of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) address: Address,
    /// The epoch of the configuration that placed it there. A later one may place it elsewhere.
    pub(crate) epoch: u64,
    /// Whether a server reports this location at present.
    pub(crate) is_fresh: bool,
}

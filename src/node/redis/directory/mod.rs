//! Names that Sentinels or a Cluster resolve: which server a node is at present.
//!
//! A node is then whoever serves now. A directory is asked all the time, so that a failover is noticed
//! while the connection to the former server still stands. The server that is found is one that may
//! have forgotten (R6), under a name that moved (R14): nothing depends on a directory being right.

mod cluster;
mod lookup;
mod sentinel;
mod slot;

pub(crate) use lookup::{Directory, DirectoryKind};
pub(crate) use slot::{hash_tag, slot_of};

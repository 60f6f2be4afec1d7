//! Servers that can't be nodes, whatever state they are in.

use std::{fmt, sync::Arc};

use crate::server_text::ServerText;

/// Why a server is not fit to vote. Found by a probe on each connect; waiting does not help.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnfitServer {
    /// It runs no scripts, without which no step of a lock is atomic.
    NoScripts {
        /// Its answer to `SCRIPT LOAD`.
        error: Arc<str>,
    },
    /// INFO does not say which run of which server it is, or in which role. Under
    /// `RestartGuard::Probation`, a restart that lost
    /// locks would not be noticed.
    NoIdentity {
        /// The missing field of INFO: `role`, or under this guard `run_id` or `master_replid`.
        missing: Arc<str>,
    },
    /// It is a node of a Redis Cluster, and the keys of one lock may belong to different nodes, as the
    /// key prefix has no hash tag (`{…}`).
    Cluster,
    /// It is a Sentinel, which stores no keys.
    Sentinel,
    /// It is older than the first version that can be a node.
    TooOld {
        /// Its version.
        version: Arc<str>,
    },
    /// It has no database of the number in the URL, or only one, as the nodes of a Cluster do.
    NoDatabase {
        /// Its answer to `SELECT`.
        error: Arc<str>,
    },
}

impl fmt::Display for UnfitServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoScripts { error } => write!(f, "it runs no scripts ({})", ServerText(error)),
            Self::NoIdentity { missing } => write!(
                f,
                "its INFO has no {}, so a restart or a fail-over that loses locks could not be noticed",
                ServerText(missing)
            ),
            Self::Cluster => f.write_str(
                "it is a node of a Redis Cluster, and the key prefix has no hash tag that keeps the keys of a lock on one node",
            ),
            Self::Sentinel => f.write_str("it is a Sentinel, which stores no keys"),
            Self::TooOld { version } => {
                write!(f, "its version {} is too old, 6.2 or newer is needed", ServerText(version))
            }
            Self::NoDatabase { error } => {
                write!(f, "it has no database of the URL's number ({})", ServerText(error))
            }
        }
    }
}

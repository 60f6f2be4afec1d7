//! Servers that can't be nodes in any state.

use std::{fmt, sync::Arc};

use crate::server_text::ServerText;

/// Why a server is not fit to vote. Detected by a probe at each connect; waiting does not help.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnfitServer {
    /// The server runs no scripts, which are needed to make a step of a lock atomic.
    NoScripts {
        /// Its answer to `SCRIPT LOAD`.
        error: Arc<str>,
    },
    /// INFO does not identify the server's run, or does not report its role. Under
    /// `RestartGuard::Probation`, a restart that lost locks would not be detected.
    NoIdentity {
        /// The missing field of INFO: `role`, or under this guard `run_id` or `master_replid`.
        missing: Arc<str>,
    },
    /// The server is a node of a Redis Cluster, and the keys of one lock may belong to different
    /// nodes, as the key prefix has no hash tag (`{…}`).
    Cluster,
    /// The server is a Sentinel, which stores no keys.
    Sentinel,
    /// The server is in protected mode: it has no password, and serves only clients on its own
    /// machine.
    ProtectedMode,
    /// The server is older than the first version that can be a node.
    TooOld {
        /// Its version.
        version: Arc<str>,
    },
    /// The server has no database with the number in the URL, or only one database, like the nodes
    /// of a Cluster.
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
            Self::ProtectedMode => f.write_str(
                "it is in protected mode: it has no password, and refuses clients on other machines",
            ),
            Self::TooOld { version } => {
                write!(f, "its version {} is too old, 6.2 or newer is needed", ServerText(version))
            }
            Self::NoDatabase { error } => {
                write!(f, "it has no database of the URL's number ({})", ServerText(error))
            }
        }
    }
}

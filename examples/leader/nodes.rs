//! The nodes that vote on the lock: real servers, or five inside this process.

use std::{fmt::Write, time::Duration};

use tower_redlock::{BuildError, EmbeddedNodes, Redlock};

use crate::Failure;

/// Servers that are new to this set vote after 10 s: they might have forgotten locks.
const READY_WITHIN: Duration = Duration::from_secs(30);
const QUIET: Duration = Duration::from_secs(1);

pub(crate) enum Nodes {
    Embedded(EmbeddedNodes),
    Servers(Vec<String>),
}

impl Nodes {
    pub(crate) fn from_env() -> Self {
        let given = std::env::var("REDLOCK_NODES").unwrap_or_default();
        let urls = given.split(',').map(str::trim).filter(|url| !url.is_empty());
        let urls: Vec<_> = urls.map(ToOwned::to_owned).collect();
        if urls.is_empty() { Self::Embedded(EmbeddedNodes::new(5)) } else { Self::Servers(urls) }
    }

    /// A lock manager of one candidate.
    pub(crate) fn manager(&self, owner: &str) -> Result<Redlock, BuildError> {
        let builder = match self {
            Self::Embedded(nodes) => Redlock::builder().nodes_from(nodes),
            Self::Servers(urls) => Redlock::builder().nodes(urls),
        };
        builder.owner(owner).build()
    }

    pub(crate) async fn wait_until_ready(&self) -> Result<(), Failure> {
        let redlock = self.manager("director")?;
        if tokio::time::timeout(QUIET, redlock.ready()).await.is_ok() {
            return Ok(());
        }
        println!("waiting for a quorum of nodes");
        if tokio::time::timeout(READY_WITHIN, redlock.ready()).await.is_ok() {
            return Ok(());
        }
        let mut text = format!("no quorum of nodes within {READY_WITHIN:?}; REDLOCK_NODES are:");
        for node in redlock.health() {
            let _ = write!(text, "\n  {}: {}", node.name, node.state);
        }
        Err(text.into())
    }
}

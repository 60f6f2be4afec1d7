//! The nodes that vote: real servers, or five inside this process.

use std::{error::Error, time::Duration};

use tower_redlock::{Redlock, RedlockBuilder, node::EmbeddedNodes};

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

    /// A lock manager over them, to be completed.
    pub(crate) fn builder(&self) -> RedlockBuilder {
        match self {
            Self::Embedded(nodes) => Redlock::builder().nodes_from(nodes),
            Self::Servers(urls) => Redlock::builder().nodes(urls),
        }
    }

    /// Waits until a quorum of them votes.
    pub(crate) async fn wait_until_ready(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let redlock = self.builder().build()?;
        if let Err(why) = redlock.ready_within(QUIET).await {
            println!("waiting: {why}");
            redlock.ready_within(READY_WITHIN).await?;
        }
        Ok(())
    }
}

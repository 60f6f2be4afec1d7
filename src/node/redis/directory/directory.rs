//! The servers that report where a node is, and their current result.

use std::{fmt, sync::Arc};

use tokio::sync::watch;

use super::{AllowedHosts, Location, location_reports::LocationState};
use crate::{
    error::Reason,
    node::redis::{Address, Credentials},
};

/// The kind of servers that are queried, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DirectoryKind {
    /// Sentinels, which report the master of a service.
    Sentinel {
        /// The name of the service.
        service: Arc<str>,
    },
    /// Nodes of a Cluster, which report the master of the slot of this node's keys.
    Cluster,
}

/// The servers that report where a node is, and their latest reports.
pub(crate) struct Directory {
    pub(super) kind: DirectoryKind,
    /// Their addresses, as given in the URL.
    servers: Vec<Address>,
    /// Whether they use TLS; never without the feature.
    pub(crate) tls: bool,
    /// The directory's own credentials.
    pub(super) credentials: Option<Credentials>,
    /// The hosts that may be named as the node's server.
    pub(crate) hosts: AllowedHosts,
    found: watch::Sender<LocationState>,
}

impl Directory {
    pub(crate) fn new(
        kind: DirectoryKind,
        servers: Vec<Address>,
        tls: bool,
        credentials: Option<Credentials>,
        hosts: AllowedHosts,
    ) -> Self {
        Self { kind, servers, tls, credentials, hosts, found: watch::Sender::default() }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.kind == DirectoryKind::Cluster
    }

    /// Returns the servers of the URL.
    pub(crate) fn servers(&self) -> &[Address] {
        &self.servers
    }

    /// Returns the reported location of the server, or its last known one; waits for the first
    /// report.
    pub(crate) async fn locate(&self) -> Result<Location, Reason> {
        let mut found = self.found.subscribe();
        let is_decided =
            |found: &LocationState| found.location.is_some() || found.failures.is_some();
        // `self` keeps the sender alive.
        let found = found.wait_for(is_decided).await.map_err(|_| Reason::Unknown)?;
        if let Some(location) = &found.location {
            return Ok(location.clone());
        }
        let text = self.failures(&found).unwrap_or_default().into();
        // The server answered and refused to report a location.
        let refuses = |reason: &Reason| {
            matches!(
                reason,
                Reason::NotLocated(_)
                    | Reason::Tls(_)
                    | Reason::Auth(_)
                    | Reason::NoPermission(_)
                    | Reason::Unfit(_)
                    | Reason::Protocol(_)
            )
        };
        let all_refuse = found.failures.iter().flatten().all(|(_, reason)| refuses(reason));
        Err(if all_refuse { Reason::NotLocated(text) } else { Reason::NotConnected(text) })
    }

    /// Returns the new address once a later configuration moves the server.
    pub(crate) async fn left(&self, Location { address, epoch, .. }: &Location) -> Address {
        let (mut found, mut epoch) = (self.found.subscribe(), *epoch);
        let has_left = |found: &LocationState| match &found.location {
            Some(now) if now.epoch > epoch => {
                // An earlier configuration no longer ends the connection from here on.
                epoch = now.epoch;
                now.address != *address
            }
            _ => false,
        };
        let now = found.wait_for(has_left).await.ok().and_then(|now| now.location.clone());
        match now {
            Some(now) => now.address,
            // `self` keeps the sender alive.
            None => std::future::pending().await,
        }
    }

    /// Replaces the result.
    pub(super) fn set_found(&self, now: LocationState) {
        self.found.send_if_modified(|found| {
            let is_new = *found != now;
            *found = now;
            is_new
        });
    }

    /// Returns why no server reports a location, while none does.
    pub(crate) fn why_unlocated(&self) -> Option<String> {
        self.failures(&self.found.borrow())
    }

    fn failures(&self, found: &LocationState) -> Option<String> {
        let failures = found.failures.as_ref()?;
        let whom = if self.is_cluster() { "Cluster node" } else { "Sentinel" };
        let failures: Vec<_> =
            failures.iter().map(|(server, reason)| format!("{server}: {reason}")).collect();
        Some(format!("no {whom} reported its address: {}", failures.join("; ")))
    }
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Directory")
            .field("kind", &self.kind)
            .field("servers", &self.servers)
            .field("found", &*self.found.borrow())
            .finish_non_exhaustive()
    }
}

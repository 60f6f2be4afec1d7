//! Asks Sentinels or the nodes of a Cluster where a server is.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{sync::watch, time::Instant};

use super::{cluster, sentinel};
use crate::{
    error::Reason,
    node::redis::{Access, Address, Credentials, Endpoint, single_server::SingleServer},
};

/// Interval between two questions to each server of a directory, half to all of it.
const INTERVAL: Duration = Duration::from_millis(500);
/// Time for an answer.
const TIMEOUT: Duration = Duration::from_millis(400);
/// Time for which an earlier word does not count, as some servers learn of a failover late; longer, and
/// the servers have begun to count anew.
const LATEST_FOR: Duration = Duration::from_secs(5);
/// Maximum number of servers of a Cluster that are asked beside those of the URL.
const MAX_OTHERS: usize = 8;

/// Who is asked, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DirectoryKind {
    /// Sentinels, for the master of a service.
    Sentinel {
        /// Its name.
        service: Arc<str>,
    },
    /// Nodes of a Cluster, for the master of the slot of this node's keys.
    Cluster,
}

/// The servers that say where a node is, and what they said last.
pub(crate) struct Directory {
    kind: DirectoryKind,
    /// As in the URL.
    servers: Vec<Address>,
    #[cfg(feature = "tls")]
    tls: bool,
    /// The directory's own credentials.
    credentials: Option<Credentials>,
    found: watch::Sender<Whereabouts>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Whereabouts {
    Asking,
    At { address: Address, epoch: u64 },
    Nowhere(Reason),
}

/// What one server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sighted {
    /// Of several answers, the one with the greatest epoch is the latest.
    pub(super) epoch: u64,
    pub(super) at: Address,
    /// Further servers that can be asked.
    pub(super) others: Vec<Address>,
}

impl Directory {
    pub(crate) fn new(
        kind: DirectoryKind,
        servers: Vec<Address>,
        #[cfg_attr(not(feature = "tls"), expect(unused_variables, reason = "never true"))]
        tls: bool,
        credentials: Option<Credentials>,
    ) -> Self {
        Self {
            kind,
            servers,
            #[cfg(feature = "tls")]
            tls,
            credentials,
            found: watch::Sender::new(Whereabouts::Asking),
        }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.kind == DirectoryKind::Cluster
    }

    /// Returns the address of the server; waits for the first answer.
    pub(crate) async fn address(&self) -> Result<Address, Reason> {
        let mut found = self.found.subscribe();
        // The sender lives as long as `self`.
        let found = found.wait_for(|found| *found != Whereabouts::Asking).await;
        match found.as_deref() {
            Ok(Whereabouts::At { address, .. }) => Ok(address.clone()),
            Ok(Whereabouts::Nowhere(reason)) => Err(reason.clone()),
            Ok(Whereabouts::Asking) | Err(_) => Err(Reason::Unknown),
        }
    }

    /// Returns where the server is instead, if it is known to be elsewhere.
    pub(crate) fn left_for(&self, address: &Address) -> Option<Address> {
        match &*self.found.borrow() {
            Whereabouts::At { address: now, .. } if now != address => Some(now.clone()),
            _ => None,
        }
    }

    /// Asks the servers again and again, and calls `moved` whenever the server is found elsewhere.
    pub(crate) async fn watch(&self, slot: u16, access: &Access, moved: impl Fn()) {
        let mut asked = Vec::new();
        let mut others = Vec::new();
        // When the word that counts was last heard.
        let mut heard = Instant::now();
        loop {
            self.renew(&mut asked, &others, access);
            let mut answers: FuturesUnordered<_> = asked
                .iter_mut()
                .map(|(address, server)| {
                    let address = &*address;
                    async move { (address, self.ask(slot, address, server).await) }
                })
                .collect();
            let (mut is_known, mut failures) = (false, Vec::new());
            // Each word is taken as it comes: a server that hangs must not delay the others.
            while let Some((address, answer)) = answers.next().await {
                match answer {
                    Ok(sighted) => {
                        is_known = true;
                        if self.is_latest(sighted.epoch, heard) {
                            heard = Instant::now();
                            others.clone_from(&sighted.others);
                            // The servers of a shard may outlive those of the URL.
                            others.push(sighted.at.clone());
                            self.take(sighted, &moved);
                        }
                    }
                    Err(reason) => failures.push(format!("{address}: {reason}")),
                }
            }
            drop(answers);
            if !is_known {
                failures.sort_unstable();
                let whom = if self.is_cluster() { "node of the cluster" } else { "Sentinel" };
                let text = format!("no {whom} says where it is: {}", failures.join("; "));
                // Whoever is connected stays so.
                self.found.send_replace(Whereabouts::Nowhere(Reason::NotConnected(text.into())));
            }
            let half = INTERVAL / 2;
            let jitter = crate::random::below(u64::try_from(half.as_micros()).unwrap_or(u64::MAX));
            tokio::time::sleep(half + Duration::from_micros(jitter)).await;
        }
    }

    /// Opens what is to be asked; connections are kept from question to question.
    fn renew(&self, asked: &mut Vec<(Address, SingleServer)>, others: &[Address], access: &Access) {
        let others = others.iter().filter(|other| !self.servers.contains(other)).take(MAX_OTHERS);
        let targets: Vec<_> = self.servers.iter().chain(others).collect();
        asked.retain(|(address, _)| targets.contains(&address));
        for address in targets {
            if !asked.iter().any(|(known, _)| known == address) {
                let endpoint = self.endpoint(address.clone());
                let server = SingleServer::new(endpoint, self.access(access), TIMEOUT);
                asked.push((address.clone(), server));
            }
        }
    }

    /// Returns whether a word counts.
    fn is_latest(&self, epoch: u64, heard: Instant) -> bool {
        match &*self.found.borrow() {
            Whereabouts::At { epoch: latest, .. } => {
                epoch >= *latest || heard.elapsed() > LATEST_FOR
            }
            Whereabouts::Asking | Whereabouts::Nowhere(_) => true,
        }
    }

    /// Notes where the server is, and tells of a move.
    fn take(&self, Sighted { epoch, at: address, .. }: Sighted, moved: &impl Fn()) {
        let now = Whereabouts::At { address, epoch };
        let before = self.found.send_replace(now.clone());
        let is_same = match (&before, &now) {
            (Whereabouts::At { address: before, .. }, Whereabouts::At { address: now, .. }) => {
                before == now
            }
            _ => false,
        };
        if !is_same {
            moved();
        }
    }

    async fn ask(
        &self,
        slot: u16,
        address: &Address,
        server: &mut SingleServer,
    ) -> Result<Sighted, Reason> {
        let sighted = match &self.kind {
            DirectoryKind::Sentinel { service } => {
                sentinel::parse(service, server.ask(&sentinel::ask(service)).await?)
            }
            DirectoryKind::Cluster => {
                cluster::parse(slot, address, server.ask(&cluster::ask()).await?)
            }
        }?;
        match &sighted.at {
            Address::Tcp { host, .. } if !Endpoint::is_host(host) => {
                Err(Reason::Protocol("the address is no name and no address".into()))
            }
            _ => Ok(sighted),
        }
    }

    fn endpoint(&self, address: Address) -> Endpoint {
        #[cfg(feature = "tls")]
        let tls = self.tls;
        #[cfg(not(feature = "tls"))]
        let tls = false;
        Endpoint::at(address, tls, self.credentials.clone())
    }

    /// Credentials for nodes are those of a Cluster's nodes, and not of Sentinels.
    fn access(&self, access: &Access) -> Access {
        let credentials = access.credentials.clone().filter(|_| self.is_cluster());
        Access { credentials, ..access.clone() }
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

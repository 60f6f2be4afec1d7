//! Queries Sentinels or the nodes of a Cluster for the location of a server.

use std::{fmt, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use tokio::{sync::watch, time::timeout};

use super::{
    Location, cluster,
    location_reports::{LocationReports, LocationState, ReportedLocation},
    sentinel,
};
use crate::{
    error::Reason,
    node::redis::{
        Access, Address, Credentials, Endpoint, backoff::Backoff, handshake,
        single_server::SingleServer,
    },
};

/// Maximum interval between two queries to a server; the minimum is half of it.
const INTERVAL: Duration = Duration::from_millis(500);
/// Maximum memory of an answer, in bytes. It holds the table of a Cluster of some 10,000 nodes.
const MAX_ANSWER: usize = 4 * 1024 * 1024;

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
    kind: DirectoryKind,
    /// Their addresses, as given in the URL.
    servers: Vec<Address>,
    #[cfg(feature = "tls")]
    tls: bool,
    /// The directory's own credentials.
    credentials: Option<Credentials>,
    found: watch::Sender<LocationState>,
}

/// A server that is queried at intervals.
struct QueriedServer {
    address: Address,
    server: SingleServer,
    /// The pauses between queries, which grow while the server fails.
    backoff: Backoff,
}

/// A new fact about a directory.
enum DirectoryEvent {
    /// The addresses of a host name in the URL; empty if none was found.
    LookedUp(Address, Vec<Address>),
    Answered(Box<QueriedServer>, Result<ReportedLocation, Reason>),
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
            found: watch::Sender::default(),
        }
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

    /// Queries the servers repeatedly; does not return.
    pub(crate) async fn watch(&self, slot: u16, access: &Access) {
        let mut reports = LocationReports::new(&self.servers);
        let mut running = FuturesUnordered::new();
        // Names that are being looked up, and addresses that are being queried.
        let (mut resolving, mut queried) = (self.servers.clone(), Vec::new());
        for name in &self.servers {
            running.push(Self::look_up(name.clone(), access, Duration::ZERO).boxed());
        }
        loop {
            for address in reports.targets() {
                if !queried.contains(&address) {
                    queried.push(address.clone());
                    let server = self.open(address, &reports, access);
                    // A server that names different servers in each answer does not cause faster
                    // queries.
                    let is_known = reports.name_of(&server.address).is_some();
                    let pause = if is_known { Duration::ZERO } else { interval() };
                    // Each server is queried separately: one that hangs must not delay the others.
                    running.push(self.ask(slot, server, pause).boxed());
                }
            }
            // Every URL names a server, so there is always a next result.
            let Some(news) = running.next().await else { return };
            match news {
                DirectoryEvent::LookedUp(name, found) => {
                    resolving.retain(|known| *known != name);
                    reports.looked_up(&name, found);
                }
                DirectoryEvent::Answered(mut server, answer) => {
                    let mut pause = interval();
                    if answer.is_ok() {
                        server.backoff = Backoff::default();
                    } else {
                        pause += server.backoff.after(Duration::ZERO);
                        // The name may resolve to other addresses by now.
                        if let Some(name) = reports.name_of(&server.address).cloned()
                            && !resolving.contains(&name)
                        {
                            resolving.push(name.clone());
                            running.push(Self::look_up(name, access, pause).boxed());
                        }
                    }
                    reports.record(server.address.clone(), answer);
                    if reports.targets().contains(&server.address) {
                        running.push(self.ask(slot, server, pause).boxed());
                    } else {
                        queried.retain(|address| *address != server.address);
                    }
                }
            }
            let now = reports.state();
            self.found.send_if_modified(|found| {
                let is_new = *found != now;
                *found = now;
                is_new
            });
        }
    }

    /// Looks a name up after a pause.
    async fn look_up(name: Address, access: &Access, pause: Duration) -> DirectoryEvent {
        tokio::time::sleep(pause).await;
        // A connector is code outside this crate.
        let looking_up = AssertUnwindSafe(async { access.connector.addresses(&name).await });
        let found = timeout(handshake::TIMEOUT, looking_up.catch_unwind()).await;
        let found = found.ok().and_then(Result::ok).and_then(Result::ok).unwrap_or_default();
        DirectoryEvent::LookedUp(name, found)
    }

    fn open(
        &self,
        address: Address,
        reports: &LocationReports,
        access: &Access,
    ) -> Box<QueriedServer> {
        let name = reports.name_of(&address).filter(|name| **name != address);
        let endpoint = Endpoint::at(address.clone(), name, self.tls(), self.credentials.clone());
        let server = SingleServer::new(endpoint, self.access(access), handshake::TIMEOUT);
        let server = server.with_max_answers(MAX_ANSWER);
        Box::new(QueriedServer { address, server, backoff: Backoff::default() })
    }

    /// Queries a server after a pause.
    async fn ask(
        &self,
        slot: u16,
        mut queried: Box<QueriedServer>,
        pause: Duration,
    ) -> DirectoryEvent {
        tokio::time::sleep(pause).await;
        let answer = AssertUnwindSafe(self.ask_now(slot, &mut queried)).catch_unwind().await;
        let panicked = || Err(Reason::NotConnected("reading the answer panicked".into()));
        DirectoryEvent::Answered(queried, answer.unwrap_or_else(|_| panicked()))
    }

    async fn ask_now(
        &self,
        slot: u16,
        queried: &mut QueriedServer,
    ) -> Result<ReportedLocation, Reason> {
        let QueriedServer { address, server, .. } = queried;
        match &self.kind {
            DirectoryKind::Sentinel { service } => {
                sentinel::parse(service, server.ask(&sentinel::ask(service)).await?)
            }
            DirectoryKind::Cluster => {
                cluster::parse(slot, address, self.tls(), server.ask(&cluster::ask()).await?)
            }
        }
    }

    #[cfg(feature = "tls")]
    pub(crate) const fn tls(&self) -> bool {
        self.tls
    }

    #[cfg(not(feature = "tls"))]
    #[expect(clippy::unused_self, reason = "as with TLS")]
    const fn tls(&self) -> bool {
        false
    }

    /// Returns the access to the directory's own servers. The credentials of nodes apply to a
    /// Cluster's nodes, but not to Sentinels.
    fn access(&self, access: &Access) -> Access {
        let credentials = access.credentials.clone().filter(|_| self.is_cluster());
        Access { credentials, ..access.clone() }
    }
}

/// Returns the pause before the next query to a server.
fn interval() -> Duration {
    crate::random::within(&(INTERVAL / 2..=INTERVAL))
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

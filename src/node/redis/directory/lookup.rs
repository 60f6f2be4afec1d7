//! Queries Sentinels or the nodes of a Cluster for the location of a server.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use tokio::time::timeout;

use super::{
    Directory, DirectoryKind, cluster,
    location_reports::{LocationReports, ReportedLocation},
    sentinel,
};
use crate::{
    error::Reason,
    node::redis::{
        Access, Address, Endpoint, backoff::Backoff, handshake, single_server::SingleServer,
    },
};

/// Maximum interval between two queries to a server; the minimum is half of it.
const INTERVAL: Duration = Duration::from_millis(500);
/// Maximum memory of an answer, in bytes. It holds the table of a Cluster of some 10,000 nodes.
const MAX_ANSWER: usize = 4 * 1024 * 1024;

/// The task that keeps a directory's result current.
pub(crate) struct DirectoryLookup<'a> {
    directory: &'a Directory,
    /// The slot of the node's keys in a Cluster.
    slot: u16,
    /// The access to the directory's own servers.
    access: Access,
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

impl<'a> DirectoryLookup<'a> {
    /// `access` is the access to the nodes. Their credentials apply to a Cluster's nodes, but not
    /// to Sentinels.
    pub(crate) fn new(directory: &'a Directory, slot: u16, access: &Access) -> Self {
        let credentials = access.credentials.clone().filter(|_| directory.is_cluster());
        Self { directory, slot, access: Access { credentials, ..access.clone() } }
    }

    /// Queries the servers repeatedly; does not return.
    pub(crate) async fn run(self) {
        let servers = self.directory.servers();
        let mut reports = LocationReports::new(servers);
        let mut running = FuturesUnordered::new();
        // Names that are being looked up, and addresses that are being queried.
        let (mut resolving, mut queried) = (servers.to_vec(), Vec::new());
        for name in servers {
            running.push(self.look_up(name.clone(), Duration::ZERO).boxed());
        }
        loop {
            for address in reports.targets() {
                if !queried.contains(&address) {
                    queried.push(address.clone());
                    let server = self.open(address, &reports);
                    // A server that names different servers in each answer does not cause faster
                    // queries.
                    let is_known = reports.name_of(&server.address).is_some();
                    let pause = if is_known { Duration::ZERO } else { interval() };
                    // Each server is queried separately: one that hangs must not delay the others.
                    running.push(self.ask(server, pause).boxed());
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
                            running.push(self.look_up(name, pause).boxed());
                        }
                    }
                    reports.record(server.address.clone(), answer);
                    if reports.targets().contains(&server.address) {
                        running.push(self.ask(server, pause).boxed());
                    } else {
                        queried.retain(|address| *address != server.address);
                    }
                }
            }
            self.directory.set_found(reports.state());
        }
    }

    /// Looks a name up after a pause.
    async fn look_up(&self, name: Address, pause: Duration) -> DirectoryEvent {
        tokio::time::sleep(pause).await;
        // A connector is code outside this crate.
        let looking_up = AssertUnwindSafe(async { self.access.connector.addresses(&name).await });
        let found = timeout(handshake::TIMEOUT, looking_up.catch_unwind()).await;
        let found = found.ok().and_then(Result::ok).and_then(Result::ok).unwrap_or_default();
        DirectoryEvent::LookedUp(name, found)
    }

    fn open(&self, address: Address, reports: &LocationReports) -> Box<QueriedServer> {
        let name = reports.name_of(&address).filter(|name| **name != address);
        let Directory { credentials, tls, .. } = self.directory;
        let endpoint = Endpoint::at(address.clone(), name, *tls, credentials.clone());
        let server = SingleServer::new(endpoint, self.access.clone(), handshake::TIMEOUT);
        let server = server.with_max_answers(MAX_ANSWER);
        Box::new(QueriedServer { address, server, backoff: Backoff::default() })
    }

    /// Queries a server after a pause.
    async fn ask(&self, mut queried: Box<QueriedServer>, pause: Duration) -> DirectoryEvent {
        tokio::time::sleep(pause).await;
        let answer = AssertUnwindSafe(self.ask_now(&mut queried)).catch_unwind().await;
        let panicked = || Err(Reason::NotConnected("reading the answer panicked".into()));
        DirectoryEvent::Answered(queried, answer.unwrap_or_else(|_| panicked()))
    }

    async fn ask_now(&self, queried: &mut QueriedServer) -> Result<ReportedLocation, Reason> {
        let QueriedServer { address, server, .. } = queried;
        let mut report = match &self.directory.kind {
            DirectoryKind::Sentinel { service } => {
                sentinel::parse(service, server.ask(&sentinel::ask(service)).await?)?
            }
            DirectoryKind::Cluster => {
                let answers = server.ask(&cluster::ask()).await?;
                cluster::parse(self.slot, address, self.directory.tls, answers)?
            }
        };
        let is_itself = self.directory.is_cluster() && report.at == *address;
        if !is_itself && !self.directory.hosts.allow(&report.at) {
            let reason = format!(
                "it names the server {}, which `hosts` in the URL does not allow",
                report.at
            );
            return Err(Reason::NotLocated(reason.into()));
        }
        report.others.retain(|server| self.directory.hosts.allow(server));
        Ok(report)
    }
}

/// Returns the pause before the next query to a server.
fn interval() -> Duration {
    crate::random::within(&(INTERVAL / 2..=INTERVAL))
}

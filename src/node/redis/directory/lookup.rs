//! Asks Sentinels or the nodes of a Cluster where a server is.

use std::{fmt, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use tokio::{sync::watch, time::timeout};

use super::{
    Location, cluster, sentinel,
    sightings::{Sighted, Sightings, Whereabouts},
};
use crate::{
    error::Reason,
    node::redis::{
        Access, Address, Credentials, Endpoint, backoff::Backoff, handshake,
        single_server::SingleServer,
    },
};

/// Interval between two questions to a server, half to all of it.
const INTERVAL: Duration = Duration::from_millis(500);
/// Maximum memory of an answer, in bytes: the table of a Cluster of some 10,000 nodes.
const MAX_ANSWER: usize = 4 * 1024 * 1024;

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

/// A server that is asked from time to time.
struct AskedServer {
    address: Address,
    server: SingleServer,
    /// Grows while it fails.
    backoff: Backoff,
}

/// What a directory learns.
enum DirectoryNews {
    /// The addresses of a name of the URL; none if it was not found.
    LookedUp(Address, Vec<Address>),
    Said(Box<AskedServer>, Result<Sighted, Reason>),
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

    /// The servers of the URL.
    pub(crate) fn servers(&self) -> &[Address] {
        &self.servers
    }

    /// Returns where the server is, or was while somebody said so; waits for the first answer.
    pub(crate) async fn locate(&self) -> Result<Location, Reason> {
        let mut found = self.found.subscribe();
        let is_decided = |found: &Whereabouts| found.location.is_some() || found.silence.is_some();
        // The sender lives as long as `self`.
        let found = found.wait_for(is_decided).await.map_err(|_| Reason::Unknown)?;
        if let Some(location) = &found.location {
            return Ok(location.clone());
        }
        let text = self.silence(&found).unwrap_or_default().into();
        // Each of them answered, and refuses to say it.
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
        let all_refuse = found.silence.iter().flatten().all(|(_, reason)| refuses(reason));
        Err(if all_refuse { Reason::NotLocated(text) } else { Reason::NotConnected(text) })
    }

    /// Returns when a later configuration has the server elsewhere, with its address.
    pub(crate) async fn left(&self, Location { address, epoch, .. }: &Location) -> Address {
        let (mut found, mut epoch) = (self.found.subscribe(), *epoch);
        let has_left = |found: &Whereabouts| match &found.location {
            Some(now) if now.epoch > epoch => {
                // An earlier one can't end the connection from here on.
                epoch = now.epoch;
                now.address != *address
            }
            _ => false,
        };
        let now = found.wait_for(has_left).await.ok().and_then(|now| now.location.clone());
        match now {
            Some(now) => now.address,
            // The sender lives as long as `self`.
            None => std::future::pending().await,
        }
    }

    /// Returns why nobody says where the server is, while that is so.
    pub(crate) fn why_silent(&self) -> Option<String> {
        self.silence(&self.found.borrow())
    }

    fn silence(&self, found: &Whereabouts) -> Option<String> {
        let failures = found.silence.as_ref()?;
        let whom = if self.is_cluster() { "node of the cluster" } else { "Sentinel" };
        let failures: Vec<_> =
            failures.iter().map(|(server, reason)| format!("{server}: {reason}")).collect();
        Some(format!("no {whom} says where it is: {}", failures.join("; ")))
    }

    /// Asks the servers again and again; does not return.
    pub(crate) async fn watch(&self, slot: u16, access: &Access) {
        let mut sightings = Sightings::new(&self.servers);
        let mut running = FuturesUnordered::new();
        // Names that are looked up, and addresses that are asked.
        let (mut sought, mut asked) = (self.servers.clone(), Vec::new());
        for name in &self.servers {
            running.push(Self::look_up(name.clone(), access, Duration::ZERO).boxed());
        }
        loop {
            for address in sightings.targets() {
                if !asked.contains(&address) {
                    asked.push(address.clone());
                    let server = self.open(address, &sightings, access);
                    // Servers that name further ones each time are asked no faster for that.
                    let is_known = sightings.name_of(&server.address).is_some();
                    let pause = if is_known { Duration::ZERO } else { interval() };
                    // Each by itself: a server that hangs delays no other.
                    running.push(self.ask(slot, server, pause).boxed());
                }
            }
            // There is a server in every URL.
            let Some(news) = running.next().await else { return };
            match news {
                DirectoryNews::LookedUp(name, found) => {
                    sought.retain(|known| *known != name);
                    sightings.looked_up(&name, found);
                }
                DirectoryNews::Said(mut server, word) => {
                    let mut pause = interval();
                    if word.is_ok() {
                        server.backoff = Backoff::default();
                    } else {
                        pause += server.backoff.after(Duration::ZERO);
                        // Its name may have other addresses by now.
                        if let Some(name) = sightings.name_of(&server.address).cloned()
                            && !sought.contains(&name)
                        {
                            sought.push(name.clone());
                            running.push(Self::look_up(name, access, pause).boxed());
                        }
                    }
                    sightings.hear(server.address.clone(), word);
                    if sightings.targets().contains(&server.address) {
                        running.push(self.ask(slot, server, pause).boxed());
                    } else {
                        asked.retain(|address| *address != server.address);
                    }
                }
            }
            let now = sightings.whereabouts();
            self.found.send_if_modified(|found| {
                let is_new = *found != now;
                *found = now;
                is_new
            });
        }
    }

    /// Looks a name up after a pause.
    async fn look_up(name: Address, access: &Access, pause: Duration) -> DirectoryNews {
        tokio::time::sleep(pause).await;
        // A connector is foreign code.
        let looking_up = AssertUnwindSafe(async { access.connector.addresses(&name).await });
        let found = timeout(handshake::TIMEOUT, looking_up.catch_unwind()).await;
        let found = found.ok().and_then(Result::ok).and_then(Result::ok).unwrap_or_default();
        DirectoryNews::LookedUp(name, found)
    }

    fn open(&self, address: Address, sightings: &Sightings, access: &Access) -> Box<AskedServer> {
        let name = sightings.name_of(&address).filter(|name| **name != address);
        let endpoint = Endpoint::at(address.clone(), name, self.tls(), self.credentials.clone());
        let server = SingleServer::new(endpoint, self.access(access), handshake::TIMEOUT);
        let server = server.with_max_answers(MAX_ANSWER);
        Box::new(AskedServer { address, server, backoff: Backoff::default() })
    }

    /// Asks a server after a pause.
    async fn ask(&self, slot: u16, mut asked: Box<AskedServer>, pause: Duration) -> DirectoryNews {
        tokio::time::sleep(pause).await;
        let word = AssertUnwindSafe(self.ask_now(slot, &mut asked)).catch_unwind().await;
        let panicked = || Err(Reason::NotConnected("reading the answer panicked".into()));
        DirectoryNews::Said(asked, word.unwrap_or_else(|_| panicked()))
    }

    async fn ask_now(&self, slot: u16, asked: &mut AskedServer) -> Result<Sighted, Reason> {
        let AskedServer { address, server, .. } = asked;
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

    /// Credentials for nodes are those of a Cluster's nodes, and not of Sentinels.
    fn access(&self, access: &Access) -> Access {
        let credentials = access.credentials.clone().filter(|_| self.is_cluster());
        Access { credentials, ..access.clone() }
    }
}

/// Returns the pause before the next question to a server.
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

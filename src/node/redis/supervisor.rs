//! Keeps one server connected: connects, serves, and reconnects with backoff.

use std::{panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::{sync::mpsc, time::Instant};

use super::{
    Endpoint,
    backoff::{Backoff, LONGEST_PAUSE},
    directory::{DirectoryLookup, Location},
    enrol::{AdminRequest, Membership},
    handshake::{self, ReadyConnection},
    reconnect_state::ReconnectState,
    request::NodeRequest,
    session::{DirectWriter, NodeChannels, Session, SessionEnd},
    status::Status,
};
use crate::{error::Reason, membership::offsets::Offsets};

/// The connection task of a [`RedisNode`](super::RedisNode); it ends when the node is dropped.
#[derive(Debug)]
pub(crate) struct Supervisor {
    endpoint: Endpoint,
    member: Membership,
    status: Arc<Status>,
    channels: NodeChannels,
    /// The location of the latest attempt to connect.
    tried: Option<Location>,
    reconnect: ReconnectState,
    backoff: Backoff,
    /// Duration of the latest connection.
    lasted: Duration,
    /// The time at which a pause last ended early because the server was found elsewhere.
    found: Option<Instant>,
}

impl Supervisor {
    pub(super) fn new(
        endpoint: Endpoint,
        member: Membership,
        status: Arc<Status>,
        requests: mpsc::UnboundedReceiver<NodeRequest>,
        admin: mpsc::UnboundedReceiver<AdminRequest>,
        direct: Arc<DirectWriter>,
    ) -> Self {
        let settings = &member.set.settings;
        let reconnect = ReconnectState::new(Offsets::new(settings.max_ttl, settings.drift_factor));
        let channels = NodeChannels { requests, admin, direct };
        Self {
            endpoint,
            member,
            status,
            channels,
            tried: None,
            reconnect,
            backoff: Backoff::default(),
            lasted: Duration::ZERO,
            found: None,
        }
    }

    pub(crate) async fn run(self) {
        let Some(directory) = self.endpoint.directory().cloned() else { return self.serve().await };
        let set = Arc::clone(&self.member.set);
        let lookup = DirectoryLookup::new(&directory, set.keys.slot(), &set.settings.access);
        tokio::select! {
            biased;
            () = self.serve() => {}
            () = lookup.run() => {}
        }
    }

    async fn serve(mut self) {
        // Operations wait for the first connection. Afterwards they fail at once while the node is
        // down.
        let mut next = None;
        loop {
            let round = AssertUnwindSafe(self.connect_and_serve(next.take())).catch_unwind();
            let reason = match round.await {
                Ok(SessionEnd::Closed) => return,
                Ok(SessionEnd::Broken(reason)) => reason,
                // A connector is code outside this crate.
                Err(_) => Reason::NotConnected("connecting or serving panicked".into()),
            };
            self.status.set_down(reason.clone());
            self.status.set_queue_delay(Duration::ZERO);
            self.member.set.left(self.member.index);
            next = Some(reason);
        }
    }

    /// Opens a connection, after a pause if one failed before, and serves it until it ends.
    async fn connect_and_serve(&mut self, last: Option<Reason>) -> SessionEnd {
        let link = match &last {
            None => connect(&self.endpoint, &self.member, &mut self.tried).await,
            Some(reason) => match self.reconnect(reason).await {
                Some(link) => link,
                None => return SessionEnd::Closed,
            },
        };
        let (began, end) = match link {
            Ok(link) => {
                let Self { endpoint, member, status, reconnect, channels, .. } = self;
                let direct = &channels.direct;
                let session = Session::new(link, endpoint, member, status, reconnect, direct);
                (Instant::now(), session.serve(channels).await)
            }
            Err(reason) => (Instant::now(), SessionEnd::Broken(reason)),
        };
        self.lasted = began.elapsed();
        end
    }

    /// Waits for the backoff and connects, rejecting operations meanwhile. Returns `None` when the
    /// node was dropped.
    async fn reconnect(&mut self, reason: &Reason) -> Option<Result<ReadyConnection, Reason>> {
        let pause = self.backoff.after(std::mem::take(&mut self.lasted));
        let Self { endpoint, member, channels, tried, found, .. } = self;
        // Servers that report a new location each time end at most one pause early in this time.
        let may_end = found.is_none_or(|at| at.elapsed() >= LONGEST_PAUSE);
        let connecting = async {
            tokio::select! {
                biased;
                // The server was found elsewhere, so there is no need to wait.
                _ = endpoint.left(tried.as_ref()), if may_end => *found = Some(Instant::now()),
                () = tokio::time::sleep(pause) => {}
            }
            connect(endpoint, member, tried).await
        };
        let mut connecting = pin!(connecting);
        loop {
            tokio::select! {
                biased;
                request = channels.requests.recv() => {
                    request?.not_sent(reason.clone());
                }
                Some(admin) = channels.admin.recv() => match admin {
                    AdminRequest::Run(_, waiting) => {
                        let _ = waiting.send(Err(reason.clone()));
                    }
                    AdminRequest::Check => {}
                },
                link = &mut connecting => return Some(link),
            }
        }
    }
}

/// Connects to the current location of the server. Stops when the server is reported elsewhere, as
/// the former one may never answer.
async fn connect(
    endpoint: &Endpoint,
    member: &Membership,
    tried: &mut Option<Location>,
) -> Result<ReadyConnection, Reason> {
    let location = &*tried.insert(endpoint.locate().await?);
    tokio::select! {
        biased;
        reason = endpoint.left(Some(location)) => Err(reason),
        link = handshake::connect(endpoint, member, location) => link,
    }
}

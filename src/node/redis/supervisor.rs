//! Keeps one server connected: connects, serves, fails fast while it is down, connects again.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::sync::mpsc;

use super::{
    Endpoint,
    enrol::{Admin, NodeSet},
    handshake::{self, Link},
    node::Request,
    reconnect_state::ReconnectState,
    session::{Ending, Inlets, Session},
    status::Status,
};
use crate::{error::Reason, membership::offsets::Offsets};

pub(super) const FIRST_BACKOFF: Duration = Duration::from_millis(20);
pub(super) const LAST_BACKOFF: Duration = Duration::from_secs(1);

/// The task behind a [`RedisNode`](super::RedisNode); it ends when the node is dropped.
#[derive(Debug)]
pub(crate) struct Supervisor {
    endpoint: Endpoint,
    member: Member,
    status: Arc<Status>,
    inlets: Inlets,
    reconnect: ReconnectState,
    backoff: Duration,
}

/// A node's place in its set.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) set: Arc<NodeSet>,
    pub(super) index: usize,
}

impl Supervisor {
    pub(super) fn new(
        endpoint: Endpoint,
        member: Member,
        status: Arc<Status>,
        requests: mpsc::UnboundedReceiver<Request>,
        admin: mpsc::UnboundedReceiver<Admin>,
    ) -> Self {
        let settings = &member.set.settings;
        let reconnect = ReconnectState::new(Offsets::new(settings.max_ttl, settings.drift_factor));
        let inlets = Inlets { requests, admin };
        Self { endpoint, member, status, inlets, reconnect, backoff: FIRST_BACKOFF }
    }

    pub(crate) async fn run(mut self) {
        // Operations wait for the first connection; later ones are told at once that it is gone.
        let mut next = None;
        loop {
            let round = AssertUnwindSafe(self.connect_and_serve(next.take())).catch_unwind();
            let reason = match round.await {
                Ok(Ending::Closed) => return,
                Ok(Ending::Broken(reason)) => reason,
                // A callback for credentials, or a connector, is foreign code.
                Err(_) => Reason::NotConnected("connecting or serving panicked".into()),
            };
            self.status.set_down(reason.clone());
            self.status.set_queue_delay(Duration::ZERO);
            self.member.set.left(self.member.index);
            next = Some(reason);
        }
    }

    /// One connection from its opening to its end, after a pause if there was one before.
    async fn connect_and_serve(&mut self, last: Option<Reason>) -> Ending {
        let link = match &last {
            None => handshake::connect(&self.endpoint, &self.member).await,
            Some(reason) => match self.reconnect(reason).await {
                Some(link) => link,
                None => return Ending::Closed,
            },
        };
        match link {
            Ok(link) => {
                self.backoff = FIRST_BACKOFF;
                let session = Session::new(link, &self.member, &self.status, &mut self.reconnect);
                session.serve(&mut self.inlets).await
            }
            Err(reason) => Ending::Broken(reason),
        }
    }

    /// Waits for the backoff and connects, turning operations away meanwhile. `None` when the node
    /// was dropped.
    async fn reconnect(&mut self, reason: &Reason) -> Option<Result<Link, Reason>> {
        let backoff = self.backoff;
        self.backoff = (backoff * 2).min(LAST_BACKOFF);
        let Self { endpoint, member, inlets, .. } = self;
        let connecting = async {
            tokio::time::sleep(jittered(backoff)).await;
            handshake::connect(endpoint, member).await
        };
        tokio::pin!(connecting);
        loop {
            tokio::select! {
                biased;
                request = inlets.requests.recv() => {
                    request?.not_sent(reason.clone());
                }
                Some(admin) = inlets.admin.recv() => {
                    if let Admin::Run(_, waiting) = admin {
                        let _ = waiting.send(Err(reason.clone()));
                    }
                }
                link = &mut connecting => return Some(link),
            }
        }
    }
}

/// Half to all of the backoff, so that a fleet does not come back in step.
pub(super) fn jittered(backoff: Duration) -> Duration {
    let random = crate::random::below(u64::try_from(backoff.as_micros()).unwrap_or(u64::MAX) / 2);
    backoff / 2 + Duration::from_micros(random)
}

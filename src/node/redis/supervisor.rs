//! Keeps one server connected: connects, serves, fails fast while it is down, connects again.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::sync::mpsc;

use super::{
    Endpoint, RedisSettings,
    encode::Keys,
    handshake::{self, Link},
    node::Request,
    session::{Ending, Session},
    status::Status,
};
use crate::error::Reason;

const FIRST_BACKOFF: Duration = Duration::from_millis(20);
const LAST_BACKOFF: Duration = Duration::from_secs(1);

/// The task behind a [`RedisNode`](super::RedisNode); it ends when the node is dropped.
#[derive(Debug)]
pub(crate) struct Supervisor {
    endpoint: Endpoint,
    settings: RedisSettings,
    keys: Keys,
    status: Arc<Status>,
    requests: mpsc::UnboundedReceiver<Request>,
}

impl Supervisor {
    pub(super) fn new(
        endpoint: Endpoint,
        settings: RedisSettings,
        status: Arc<Status>,
        requests: mpsc::UnboundedReceiver<Request>,
    ) -> Self {
        let keys = Keys::new(&settings.prefix);
        Self { endpoint, settings, keys, status, requests }
    }

    pub(crate) async fn run(mut self) {
        // Operations wait for the first connection; later ones are told at once that it is gone.
        let mut link = handshake::connect(&self.endpoint, &self.settings, &self.keys).await;
        let mut backoff = FIRST_BACKOFF;
        loop {
            let reason = match link {
                Ok(link) => {
                    backoff = FIRST_BACKOFF;
                    self.status.set_up(link.version.clone(), link.round_trip);
                    if let Some(reason) = &link.refusal {
                        self.status.set_refusing(reason);
                    }
                    let session = Session::new(link, &self.keys, &self.settings, &self.status);
                    match session.serve(&mut self.requests).await {
                        Ending::Closed => return,
                        Ending::Broken(reason) => reason,
                    }
                }
                Err(reason) => reason,
            };
            self.status.set_down(reason.clone());
            let Some(next) = self.reconnect(&reason, backoff).await else { return };
            link = next;
            backoff = (backoff * 2).min(LAST_BACKOFF);
        }
    }

    /// Waits for the backoff and connects, turning operations away meanwhile. `None` when the node
    /// was dropped.
    async fn reconnect(
        &mut self,
        reason: &Reason,
        backoff: Duration,
    ) -> Option<Result<Link, Reason>> {
        let Self { endpoint, settings, keys, status, requests } = self;
        let connecting = async {
            tokio::time::sleep(jittered(backoff)).await;
            handshake::connect(endpoint, settings, keys).await
        };
        tokio::pin!(connecting);
        loop {
            tokio::select! {
                biased;
                request = requests.recv() => {
                    let request = request?;
                    status.in_flight.fetch_sub(1, Ordering::Relaxed);
                    request.reply.not_sent(reason.clone());
                }
                link = &mut connecting => return Some(link),
            }
        }
    }
}

/// Half to all of the backoff, so that a fleet does not come back in step.
fn jittered(backoff: Duration) -> Duration {
    let random = crate::random::below(u64::try_from(backoff.as_micros()).unwrap_or(u64::MAX) / 2);
    backoff / 2 + Duration::from_micros(random)
}
